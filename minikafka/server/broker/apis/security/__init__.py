"""APIs of ACLs, quotas, delegation tokens, SCRAM credentials and SASL."""

"""Groups of consumers: who is a member, who gets what, how far they have come. Decided purely."""

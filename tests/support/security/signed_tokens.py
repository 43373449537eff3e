"""An OAuth provider for tests: keys, JWK sets and signed tokens."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.support.security.logins import WALL_MS

NOW_S = WALL_MS // 1000
# Made once: an RSA key takes a while.
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
P384 = ECKey.generate_key("P-384", {"kid": "p384"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OTHER = ECKey.generate_key("P-256", {"kid": "other"})


def key_set(*keys: Any, **more: Any) -> bytes:
    """A JWK set of the public keys; ``more`` is added to each of them."""
    return json.dumps({"keys": [key.as_dict(private=False) | more for key in keys]}).encode()


def claims(**more: Any) -> dict[str, Any]:
    """Claims of Alice, for an hour. A claim that is None is left out."""
    found = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 3600, **more}
    return {name: value for name, value in found.items() if value is not None}


def signed(key: Any, algorithm: str, payload: dict[str, Any] | None = None, **header: Any) -> str:
    """A token. A part of the header that is None is left out."""
    fields = {"alg": algorithm, "kid": key.as_dict().get("kid"), **header}
    fields = {name: value for name, value in fields.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    text = json.dumps(claims() if payload is None else payload)
    return jws.serialize_compact(fields, text, key, [algorithm], registry)


def keyed_with_the_public_key(key: Any) -> str:
    """The attack: an HMAC whose secret is what everybody knows."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    header = json.dumps({"alg": "HS256", "kid": key.as_dict()["kid"]}).encode()
    text = part(header) + b"." + part(json.dumps(claims()).encode())
    return (text + b"." + part(hmac.digest(key.as_pem(private=False), text, "sha256"))).decode()

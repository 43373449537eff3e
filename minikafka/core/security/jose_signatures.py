"""Signatures of JSON web tokens, by joserfc and cryptography.

Import this module only where signed tokens are validated: nothing else needs these libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joserfc import jws
from joserfc.jwk import import_key

# Some providers put a chain of certificates into the header. No frame before the login is larger.
_MAX_BYTES = 524_288


class JoserfcLibrary:
    """The ``SignatureLibrary`` for ``SecuredValidator``.

    joserfc and cryptography raise many kinds of exceptions for keys and tokens that are malformed.
    They all become ValueError here: the input is a stranger's.
    """

    def import_key(self, jwk: Mapping[str, Any]) -> object:
        try:
            key = import_key(dict(jwk))
            _ = key.public_key  # decodes the key: otherwise its first token would fail
            return key
        except Exception as error:
            raise ValueError(f"it is malformed ({type(error).__name__})") from error

    def payload(self, token: str, key: object, algorithm: str) -> bytes:
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        registry.max_header_length = registry.max_payload_length = _MAX_BYTES
        try:
            public_key: Any = key
            signed = jws.deserialize_compact(token, public_key, [algorithm], registry)
        except Exception as error:
            raise ValueError(
                f"the signature of the token is wrong ({type(error).__name__})"
            ) from error
        return bytes(signed.payload)

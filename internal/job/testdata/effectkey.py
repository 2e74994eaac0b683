"""Computes effectkey.json, independently of the program: python3 effectkey.py > effectkey.json"""

import base64
import hashlib
import json
import struct

DOMAIN = "fireonce effect key 1"


def effect_key(namespace, project, key, round):
    encoded = b""
    for text in (DOMAIN, namespace, project, key):
        text = text.encode()
        encoded += struct.pack(">I", len(text)) + text
    encoded += struct.pack(">Q", round)
    digest = hashlib.sha256(encoded).digest()
    return "fo1_" + base64.b32encode(digest).decode().rstrip("=").lower()


vectors = [
    ("production", "default", "order-42-paid", 1),
    ("production", "default", "order-42-paid", 2),
    ("staging", "default", "order-42-paid", 1),
    ("production", "shop", "order-42-paid", 1),
    ("production", "default", "order-42-pai", 1),
    ("p", "roduction", "", 1),
    ("", "", "", 1),
    ("production", "default", "k" * 255, 200),
]
print(json.dumps([
    {"namespace": n, "project": p, "key": k, "round": r, "effect_key": effect_key(n, p, k, r)}
    for n, p, k, r in vectors
], indent=1))

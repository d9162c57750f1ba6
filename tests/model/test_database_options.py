"""Options of databases: each spelling means its TLS or is refused, and a network's line has TLS unless it was turned off."""

from __future__ import annotations

from itertools import product

import pytest

from dts_assets.model.database_options import OptionMistake, ServerProof, database_options
from dts_assets.model.database_places import DatabasePlace, database_place

SPELLINGS = {
    ServerProof.OFF: ("sslMode=disable", "ssl-mode=DISABLED", "SSLMODE=Disabled"),
    ServerProof.NONE: (
        "sslMode=trust", "ssl-mode=REQUIRED", "sslmode=require", "useSSL=true", "requireSSL=true", "use_ssl=1", "useTls=yes",
        "verifyServerCertificate=false", "trustServerCertificate=true",
        "useSSL=true&requireSSL=true&verifyServerCertificate=false",
    ),
    ServerProof.AUTHORITY: (
        "sslmode=verify-ca", "ssl-mode=VERIFY_CA", "ssl_mode=verifyCA", "verifyServerCertificate=true", "serverSslCert=/ca.pem",
        "ssl-ca=/ca.pem", "sslrootcert=/ca.pem", "useSSL=true&verifyServerCertificate=true",
        "sslMode=verify-ca&serverSslCert=/ca.pem", "disableSslHostnameVerification=true",
    ),
    ServerProof.NAME: (
        "sslmode=verify-full", "ssl-mode=VERIFY_IDENTITY", "SSLMode=verify_full", "ssl_mode=verifyIdentity",
        "ssl-verify-server-cert=true", "sslVerifyIdentity=true", "trustServerCertificate=false",
        "sslMode=verify-full&requireSSL=true&ssl-ca=/ca.pem",
    ),
}  # fmt: skip
PAIRS = [(text, proof) for proof, texts in SPELLINGS.items() for text in texts]


@pytest.mark.parametrize(("text", "proof"), PAIRS)
def test_each_spelling_means_its_proof_in_any_case(text: str, proof: ServerProof) -> None:
    assert database_options(text).proof is proof
    names = [one.partition("=")[::2] for one in text.split("&")]
    for how in (str.upper, str.lower):
        assert database_options("&".join(f"{how(name)}={value}" for name, value in names)).proof is proof


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sslMode=always", "write one of disable, trust, verify-ca, verify-full"),
        ("sslMode=preferred", "write one of"),
        ("sslMode=", "has no value"),
        ("sslMode", "has no value"),
        ("useSSL=false", "write sslMode=disable if that is meant"),
        ("requireSSL=0", "turns TLS off"),
        ("requireSSL=maybe", "neither true nor false"),
        ("sslmod=verify-full", "did you mean sslMode?"),
        ("sllMode=verify-full", "did you mean sslMode?"),
        ("sslMode=verify-full&sslmode=disable", "say the same thing twice"),
        ("serverSslCert=/a&ssl-ca=/b", "say the same thing twice"),
        ("sslMode=disable&requireSSL=true", "its sslMode is less than requireSSL asks for"),
        ("sslMode=trust&serverSslCert=/ca.pem", "write sslMode=verify-ca, or remove serverSslCert"),
        ("trustCertificateKeyStoreUrl=file:/s3cret", "name a PEM file"),
        ("trustStorePassword=s3cret", "name a PEM file"),
        ("clientCertificateKeyStorePassword=s3cret", "name a PEM file"),
        ("zeroDateTimeBehavior=s3cret", "its options are sslMode"),
    ],
)
def test_what_cannot_be_followed_is_refused_without_its_value(text: str, said: str) -> None:
    with pytest.raises(OptionMistake) as caught:
        database_options(text)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_options_of_the_driver_are_passed_in_its_own_spelling() -> None:
    found = database_place(
        "jdbc:mysql://db/?CONNECTTIMEOUT=9&tcpkeepalive=true&ssl-mode=REQUIRED", user="u", password=""
    )
    assert found.options == (("sslMode", "trust"), ("connectTimeout", "9"), ("tcpKeepAlive", "true"))


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("db.example.org", False), ("10.0.0.7:3307", False), ("localhost.example.org", False), ("127.example.org", False),
        ("[2001:db8::1]", False), ("0.0.0.0", False), ("localhost", True), ("LOCALHOST:3307", True), ("127.0.0.1", True),
        ("127.8.9.1", True), ("[::1]:3306", True),
    ],
)  # fmt: skip
def test_a_password_crosses_a_network_over_tls_alone(address: str, is_here: bool) -> None:
    def place(options: str) -> DatabasePlace:
        return database_place(f"jdbc:mysql://{address}/{options}", user="u", password="p")

    assert place("").needs_tls is not is_here
    assert dict(place("").options).get("sslMode") == (None if is_here else "trust")
    assert not place("?sslMode=disable").needs_tls
    assert not place("?localSocket=/run/db.sock").needs_tls
    for text, proof in PAIRS:
        assert place(f"?{text}").needs_tls is (proof is not ServerProof.OFF)


def test_nothing_but_sslmode_turns_tls_off() -> None:
    """Whatever stands in a URL of a network, each line has TLS, or the URL says sslMode=disable, or it is refused."""
    words = ("sslMode", "ssl-mode", "useSSL", "requireSSL", "verifyServerCertificate", "ssl", "tls", "sslm0de")
    values = ("", "true", "false", "disable", "DISABLED", "none", "verify-full", "0")
    for name, value in product(words, values):
        try:
            found = database_place(f"jdbc:mysql://db/?{name}={value}", user="u", password="p")
        except OptionMistake:
            continue
        is_off = name.lower().replace("-", "") == "sslmode" and value.lower().startswith("disable")
        assert found.needs_tls is not is_off

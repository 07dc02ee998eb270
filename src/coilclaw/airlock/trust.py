"""Whom TLS trusts: the system's certificate authorities, or the file the owner names. Never the environment.

SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE are ignored: somebody who can set a variable for one command must not
choose who is trusted or record session keys. An owner with a private authority names its file in the configuration
(`ca_file`), which then replaces the system's.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.errors import TransportError

if TYPE_CHECKING:
    import ssl

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def tls_context(ca_file: str | None, protocol: str = "http/1.1") -> "ssl.SSLContext":
    """A client context that requires a valid certificate for the name; TLS 1.2 or later, HTTP/1.1 only."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    if protocol:
        context.set_alpn_protocols([protocol])
    try:
        if ca_file is not None:
            context.load_verify_locations(cafile=ca_file)
        else:
            _load_system(context, ssl.get_default_verify_paths())
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            "The trusted certificates could not be read.",
            sent=False,
            remedy="Check ca_file, or install ca-certificates.",
        ) from error
    return context


def _load_system(context: "ssl.SSLContext", paths: "ssl.DefaultVerifyPaths") -> None:
    """A hashed directory is read on demand; a bundle is parsed whole. The former starts faster."""
    directory = Path(paths.openssl_capath)
    if directory.is_dir() and any(entry.name.endswith(".0") for entry in directory.iterdir()):
        context.load_verify_locations(capath=str(directory))
        return
    for bundle in (paths.openssl_cafile, *_BUNDLES):
        if Path(bundle).is_file():
            context.load_verify_locations(cafile=bundle)
            return
    raise FileNotFoundError("no system certificate store")

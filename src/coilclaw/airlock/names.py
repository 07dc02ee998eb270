"""Names that belong to a machine, a home, a company or a cluster, never to the public web."""

from typing import Final

_LOCAL: Final[dict[str, str]] = {
    # RFC 6761 and its registry of special-use names. `example` is ordinary: it is for documentation, and not local.
    "localhost": "RFC 6761",
    "test": "RFC 6761: development machines answer it locally",
    "invalid": "RFC 6761: never resolves",
    "local": "RFC 6762: multicast DNS",
    "onion": "RFC 7686: not DNS",
    "alt": "RFC 9476: not DNS",
    "arpa": "RFC 3172: infrastructure, with home.arpa (RFC 8375) and ipv4only.arpa (RFC 7050)",
    # Never delegated and answered inside networks: RFC 6762 appendix G, ICANN's reservation and collision lists.
    "internal": "ICANN 2024: private use; cloud metadata and instance names",
    "intranet": "RFC 6762 appendix G",
    "private": "RFC 6762 appendix G",
    "corp": "RFC 6762 appendix G",
    "home": "RFC 6762 appendix G",
    "lan": "RFC 6762 appendix G",
    "mail": "ICANN name collisions",
    # Defaults of home routers and operating systems; none is delegated.
    "localdomain": "system default",
    "localnet": "system default",
    "domain": "router default",
    "workgroup": "system default",
    "router": "router default",
    "gateway": "router default",
    "dhcp": "router default",
    "belkin": "router default",
    "intra": "company networks",
    "priv": "company networks",
    "loc": "company networks",
    # Clusters and service discovery.
    "svc": "Kubernetes services",
    "pod": "Kubernetes pods",
    "cluster": "Kubernetes",
    "default": "Kubernetes default namespace (kubernetes.default)",
    "kube-system": "Kubernetes system namespace",
    "consul": "Consul",
    "nomad": "Nomad",
    "mesos": "Mesos DNS",
    "docker": "container networks",
    "containers": "container networks",
    "podman": "container networks",
    "kubernetes": "Kubernetes",
}

_EXACT: Final[dict[str, str]] = {
    "metadata.goog": "cloud metadata under a public-looking name",
}


def local_name(host: str) -> str | None:
    """Why a lower-case host name is not a public one, or None for an ordinary name such as example.com."""
    if "." not in host:
        return "a single label is looked up in the local network"
    return _EXACT.get(host) or _LOCAL.get(host.rpartition(".")[2])


def is_localhost(host: str) -> bool:
    """Whether the name means this machine by RFC 6761."""
    return host == "localhost" or host.endswith(".localhost")

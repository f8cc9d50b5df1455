//! Domain names as people type them: URLs, IDNs, sub-domains; the registrable domain by the public suffix list.

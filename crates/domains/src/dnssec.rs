//! DNSSEC validation from the trust anchor, with a reason that a person can read.

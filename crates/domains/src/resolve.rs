//! Iterative resolution without a cache: every server of every cut, in parallel.

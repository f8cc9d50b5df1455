//! What to do about what was found, in words for the owner of a domain.

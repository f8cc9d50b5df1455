//! One question to one server: UDP, TCP, DoT, DoH, with the fallbacks between them.

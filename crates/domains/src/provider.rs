//! Which DNS provider serves a zone and which registrar holds it.

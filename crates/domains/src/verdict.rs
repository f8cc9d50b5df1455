//! What one server's answers say about that server.

//! Queries to recursive resolvers, with the TTL left in their caches, AD, EDE and NSID.

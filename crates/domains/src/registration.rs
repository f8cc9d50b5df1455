//! Registration data by RDAP, with WHOIS as the fallback.

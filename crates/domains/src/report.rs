//! What the tools print: tables for people, JSON for programs.

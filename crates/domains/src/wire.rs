//! The codec boundary: messages as bytes that are kept as evidence, and as typed answers.

//! Placeholder until the tests of this kind are written.

//! Pictures: what is in them, for runs of every shape.

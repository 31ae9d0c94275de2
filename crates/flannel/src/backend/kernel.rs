//! Backends on the kernel of Linux.

//! [`Hcn`] over hnsd's socket.

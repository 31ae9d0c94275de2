//! Kubernetes objects: a client's view, and an API server for one machine.

//! What another policy would have meant, by account, size class and queue.

//! An allocation of this command's own: waiting for it, staying with it, what runs beside it on
//! this host, and giving it back. `calloc`, `salloc`, `cosy run` and `srun` share this.

pub mod finish;
pub mod job_connection;
pub mod shell;

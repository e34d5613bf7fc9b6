//! The place of the simulator: workloads replayed through the planner and the controller
//! that also run live, with faults on the way, and the experiments of the papers again.
//!
//! Nothing is here yet, and no program `cosy-sim` is built. What is there already and what
//! it will be made of: `cosy_sched::Scheduler` and `cosy_control::Controller` take the
//! time with each call and never read a clock, so that a year passes as fast as it can be
//! computed; the controller's own tests run it with lost messages and crashes from a seed.
//!
//! Will know nothing of sockets, processes or the real time. There will be no second
//! scheduler in it.

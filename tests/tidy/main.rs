//! Rules about the repository itself: its layout, the direction of its dependencies, its texts and the size
//! of its parts. What is checked here need not be said in a review.

mod dependencies;
mod layout;
mod run_states;
mod scan;
mod size;
mod texts;
mod tree;

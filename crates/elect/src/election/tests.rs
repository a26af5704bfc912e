//! Claims about single candidates, event by event.

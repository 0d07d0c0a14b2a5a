//! Requests that are not HTTP, or could be read in two ways: nothing is ever smuggled behind them.

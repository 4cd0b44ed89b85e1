// Package retry decides whether and when an item is tried again.
//
// It is pure: no clock, no sleep, no random source of its own. How long to wait
// is decided by the caller's budgets, not by the server: a wait that does not
// fit is not begun, and a server's hint is never cut short.
package retry

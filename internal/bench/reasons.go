package main

// Why a byte of some kinds costs more than what it costs in the plain case, as profiles of the gateway showed on
// 2026-11-22. They stand in the report where it is more than twice as much.
const (
	reasonStream = "each notice is read, cleaned, limited and written to the client at once, for the sake of whoever waits for it. " +
		"In a profile these notices took 20 % of the CPU, and of the rest most was what every call costs."
	reasonQuestions = "the messages are no longer than those of a plain call, but there are more of them. The stages run twice, " +
		"before the question and with its answer; the answer is a request of its own on both sides; and client and server " +
		"each have an event stream for it. In a profile with 100 at once the stages took 23 % of the CPU, the exchange with " +
		"the server 17 % and the client's stream 14 %. Each round waits 25 milliseconds for further questions, so a call " +
		"takes at least that long, and few of them at once leave the processors idle between, which costs waking them."
	reasonUnread = ", which passes it on unread. The gateway reads it as JSON, strictly, and looks for hidden text and secrets " +
		"in it; in a profile with 1024 KiB these two took 22 % and 21 % of its CPU."
)

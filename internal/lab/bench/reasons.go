package main

// Why a byte of some kinds costs more than what it costs in the plain case, as profiles
// of the gateway showed on a day before. The report says so where it is more than twice
// as much.
const (
	reasonStream = `A notice of progress is read, cleaned, limited and written to the client immediately, for the sake
of whoever waits for it. In a profile of 2026-11-22, notices took 20 % of the CPU. Most of the rest was what
every call costs.`
	reasonQuestions = `The messages of a question are no longer than those of a plain call, but there are more of them. The stages run
twice, before the question and with its answer. The answer is a request of its own on both sides. Client and
server each have an event stream for it. In a profile of 2026-11-22, with 100 questions at once, the stages
took 23 % of the CPU.
The exchange with the server took 17 %, and the client's stream 14 %. Each round waits 25 milliseconds for further
questions, so a call takes at least that long. With few questions at once the processors idle in between, and it
costs CPU to wake them.`
	reasonUnread = `ReverseProxy passes a result on unread. The gateway reads it as JSON, strictly, and looks for hidden text and
secrets in it. In a profile of 2026-11-22, with results of 1024 KiB, these two took 22 % and 21 % of its CPU.`
	reasonUnknown = "Where no reason is given, no profile has been made, so the reason is not known."
)

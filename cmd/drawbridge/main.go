// Command drawbridge is a multi-tenant gateway for MCP servers. This package answers how
// the gateway is put together, started, changed while it runs, and stopped, and it holds
// the operator's commands. It imports every other package and none imports it. It does
// not know how a config file is read and checked: package config does.
//
// To read it, begin with this file (the commands, which share command.go), then serve.go
// (the order of start and stop) and build.go (which parts there are and what each is
// given). What a reload changes is in reload.go, with changes.go and accesslog.go for
// what the log says of it. The servers are in fleet.go and load.go, the issuers'
// verifiers in verifiers.go, both on task.go. What operators see is in status.go, log.go
// and describe.go. Each other command has a file of its name: dev, validate, explain,
// plan, usage, data (with sign-out), token, healthcheck, version, help; but keys is in
// accesskeys.go.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == keepCommand {
		process.Keep(os.Args[2:]) // does not return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal begins an orderly stop. Then signals have their default effect
	// again, so that a second one ends a process whose stop takes too long.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func commands() []command {
	return []command{
		{
			"dev", "run on loopback without any file, and print all that a first call needs", devHelp, false,
			devCommand,
		},
		{"serve", "run the gateway with a config", serveHelp, false, serveCommand},
		{"validate", "check a config and start nothing", validateHelp, false, validateCommand},
		{"explain", "say what becomes of a request, and why", explainHelp, false, explainCommand},
		{"plan", "say what a new config changes for callers", planHelp, true, planCommand},
		{"usage", "count who used what, from audit files", usageHelp, false, usageCommand},
		{"data", "check, back up and restore what is kept for good", dataHelp, true, dataCommand},
		{"keys", "make, list and revoke access keys of machines", keysHelp, true, keysCommand},
		{"sign-out", "end all that a person has who signed in", signOutHelp, true, signOutCommand},
		{"token", "sign a token for trials", tokenHelp, false, tokenCommand},
		{
			"healthcheck", "ask a running gateway whether it is ready", healthcheckHelp, false,
			healthcheckCommand,
		},
		{
			"version", "print the version and the protocol revisions served", versionHelp, false,
			versionCommand,
		},
		{"help", "print a page of the documentation, or what a code means", helpHelp, true, helpCommand},
	}
}

// run is the whole program but for its end: it returns the exit code. Tests call it in
// place of main.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := streams{stdout, stderr}
	if len(args) == 0 {
		usage(s.complain)
		return exitRefused
	}
	switch args[0] {
	case "-h", "-help", "--help":
		usage(s.say)
		return exitOK
	case "-version", "--version":
		args = []string{"version"}
	}
	names := make([]string, 0, len(commands()))
	for _, c := range commands() {
		if c.name == args[0] {
			return end(c.name, c.run(ctx, args[1:], s), s)
		}
		names = append(names, c.name)
	}
	s.complain("drawbridge: no command %q%s\n\n", args[0], hint(args[0], names))
	usage(s.complain)
	return exitRefused
}

func usage(say func(string, ...any)) {
	say("drawbridge is a multi-tenant gateway for MCP servers.\n\nUsage: drawbridge <command> [flags]\n\n")
	for _, c := range commands() {
		say("  %-12s %s\n", c.name, c.does)
	}
	say("\nThe flags of a command: drawbridge <command> -h\n"+
		"A page of the documentation, a code or an outcome: drawbridge help <topic>, with one of\n  %s\n",
		strings.Join(topics(), " "))
}

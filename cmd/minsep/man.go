package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/manifest"
)

// manCommand returns a hidden command that writes the help of all commands as man pages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write pages for man",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			// From the same texts as --help, so that the two cannot differ.
			for _, c := range append(cmd.Root().Commands(), cmd.Root()) {
				if c.Hidden || c.Name() == "help" {
					continue
				}
				if err := os.WriteFile(filepath.Join(args[0], manName(c)+".1"), []byte(manPage(c)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff escapes text for one line of roff: backslashes, hyphens, and a leading dot or quote.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// manWidth is the number of columns for text in a page for man on a usual terminal.
const manWidth = 72

// manPage returns the man page of a command, in roff.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := manName(c)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), "minsep "+manifest.Version, roff(name), roff(c.Short))
	if c.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", roff(c.UseLine()))
	}
	b.WriteString(".SH DESCRIPTION\n")
	filled := true
	for line := range strings.SplitSeq(strings.TrimSpace(c.Long), "\n") {
		if indented := strings.HasPrefix(line, " ") || strings.Contains(line, "  "); indented == filled && line != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			filled = !indented
		}
		switch {
		case line == "":
			b.WriteString(".PP\n")
		case filled:
			b.WriteString(roff(line) + "\n")
		default: // man shows these lines as they are, however long
			for part := range strings.SplitSeq(foldLine(line, manWidth, 0), "\n") {
				b.WriteString(roff(part) + "\n")
			}
		}
	}
	if !filled {
		b.WriteString(".fi\n")
	}
	options := func(title string, flags *pflag.FlagSet) {
		if c.IsAdditionalHelpTopicCommand() || !flags.HasAvailableFlags() {
			return
		}
		b.WriteString(".SH " + title + "\n")
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.Name+" "+valueName(f))), roff(f.Usage))
			}
		})
	}
	options("OPTIONS", c.NonInheritedFlags())
	if c.HasParent() {
		options("OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	} else {
		b.WriteString(".SH COMMANDS\n")
		for _, one := range c.Commands() {
			if !one.Hidden && one.Name() != "help" {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(manName(one)), roff(one.Short))
			}
		}
	}
	return b.String()
}

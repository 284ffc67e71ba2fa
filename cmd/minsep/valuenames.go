package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valueNames are the names of flags' values in help, as in --key FILE. Flags that are not here go
// by their type: see valueName.
var valueNames = map[string]string{
	"also-epsilon": "E,E,...", "bands": "W", "batch-size": "X", "bounded": "DIR", "checkpoint": "DIR", "column": "C,C,...", "delimiter": "BYTE", "delta": "D", "dtype": "TYPE",
	"epsilon": "E", "example-column": "COLUMN", "example-type": "TYPE", "examples-per-owner": "G", "format": "FORMAT", "from": "DIR", "graph": "FILE", "grid": "number|none",
	"header": "HOW", "id-column": "COLUMN", "id-type": "TYPE", "key": "FILE", "kind": "K", "learning-rate": "R", "log-format": "FORMAT", "log-level": "LEVEL",
	"max-noise-state": "SIZE", "max-per-owner": "K", "memory": "FD", "min-sep": "B", "momentum": "BETA", "objective": "ERROR", "observations": "FILE", "optimizer": "NAME", "order": "ORDER", "out": "PATH", "owner-column": "COLUMN", "owner-type": "TYPE",
	"plan": "FILE", "prob": "P", "row": "N", "run": "DIR", "run-id": "ID", "runner": "RUNNER", "sample": "UNIT", "schedule": "NAME", "scheme": "S", "shard": "i/N", "solve": "WHAT",
	"strategy": "FILE", "times": "N,N,...", "title": "TEXT", "unit": "UNIT", "until": "STAGE", "without": "FILE", "words": "SOURCE", "work-dir": "DIR", "workload": "NAME",
}

// valueName is the name of a flag's value in help; "" if it takes none, or if no name is known.
func valueName(f *pflag.Flag) string {
	if name, _ := pflag.UnquoteUsage(f); strings.Contains(f.Usage, "`") {
		return name
	}
	if name := valueNames[f.Name]; name != "" {
		return name
	}
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		return "N"
	case "strings", "stringSlice": // of files: other lists are above
		return "FILE"
	case "float64":
		return "X"
	case "duration":
		return "TIME"
	}
	return ""
}

// flagHelp is FlagUsages with the names of valueName in place of Go's types, and without the
// defaults of empty lists and those that the text of a flag says itself.
func flagHelp(flags *pflag.FlagSet) string {
	named := pflag.NewFlagSet("", pflag.ContinueOnError)
	var marks []string
	flags.VisitAll(func(f *pflag.Flag) {
		shown := *f
		if strings.Contains(f.Usage, "(default") { // the text says it
			shown.DefValue = ""
		}
		if name := valueName(f); f.NoOptDefVal == "" && name != "" && !strings.Contains(f.Usage, "`") {
			// pflag takes the text between backquotes for the name, and leaves it in the help.
			mark := name + "\x00"
			shown.Usage = "`" + name + "`\x00" + f.Usage
			marks = append(marks, mark, "")
		}
		named.AddFlag(&shown)
	})
	named.SortFlags = flags.SortFlags
	marks = append(marks, " (default )", "", " (default [])", "")
	return strings.NewReplacer(marks...).Replace(named.FlagUsages())
}

// nameValues makes the help of c and its commands use flagHelp.
func nameValues(c *cobra.Command) {
	cobra.AddTemplateFunc("flagHelp", flagHelp)
	t := c.UsageTemplate()
	for _, flags := range []string{".LocalFlags", ".InheritedFlags"} {
		t = strings.ReplaceAll(t, "{{"+flags+".FlagUsages", "{{flagHelp "+flags)
	}
	c.SetUsageTemplate(t)
}

// help is the help of a command in lines of a width.
func help(c *cobra.Command, width int) string {
	text := reflow(strings.TrimSpace(cmp.Or(c.Long, c.Short)), width) + "\n"
	if c.Runnable() || c.HasSubCommands() {
		text += "\n" + fold(c.UsageString(), width)
	}
	return text
}

package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valueNames names the values of flags in help, as FILE in --key FILE. Flags that are missing here
// are named by their type: see valueName.
var valueNames = map[string]string{
	"again":           "DIR",
	"also-epsilon":    "E,E,...",
	"bands":           "W",
	"batch-size":      "X",
	"bounded":         "DIR",
	"checkpoint":      "DIR",
	"column":          "C,C,...",
	"delimiter":       "BYTE",
	"delta":           "D",
	"dtype":           "TYPE",
	"encoding":        "NAME",
	"owner-separator": "SEP",
	"epsilon":         "E",
	"example-column":  "COLUMN",
	"example-type":    "TYPE",
	"format":          "FORMAT",
	"from":            "DIR",
	"graph":           "FILE",
	"grid":            "number|none",
	"header":          "HOW",
	"id-type":         "TYPE",
	"key":             "FILE",
	"kind":            "K",
	"learning-rate":   "R",
	"log-format":      "FORMAT",
	"log-level":       "LEVEL",
	"max-noise-state": "SIZE",
	"max-per-owner":   "K",
	"memory":          "FD",
	"min-sep":         "B",
	"momentum":        "BETA",
	"objective":       "ERROR",
	"optimizer":       "NAME",
	"order":           "ORDER",
	"out":             "PATH",
	"owner-column":    "COLUMN",
	"owner-type":      "TYPE",
	"owner":           "COLUMN",
	"example":         "COLUMN",
	"owner-noun":      "NOUN",
	"example-noun":    "NOUN",
	"plan":            "FILE",
	"prob":            "P",
	"row":             "N",
	"run":             "DIR",
	"runner":          "RUNNER",
	"sample":          "UNIT",
	"schedule":        "NAME",
	"scheme":          "S",
	"shard":           "i/N",
	"solve":           "WHAT",
	"strategy":        "FILE",
	"times":           "N,N,...",
	"title":           "TEXT",
	"unit":            "UNIT",
	"until":           "STAGE",
	"words":           "SOURCE",
	"work-dir":        "DIR",
	"workload":        "NAME",
}

// valueName returns the name of a flag's value in help; "" if it takes no value, or none is known.
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
	case "strings", "stringSlice": // lists of files; other lists are in valueNames
		return "FILE"
	case "float64":
		return "X"
	case "duration":
		return "TIME"
	}
	return ""
}

// flagHelp is pflag's FlagUsages with the names from valueName in place of Go's types. It leaves
// out defaults that are empty lists or that the flag's text states itself.
func flagHelp(flags *pflag.FlagSet) string {
	named := pflag.NewFlagSet("", pflag.ContinueOnError)
	var marks []string
	flags.VisitAll(func(f *pflag.Flag) {
		shown := *f
		if strings.Contains(f.Usage, "(default") { // the text states the default
			shown.DefValue = ""
		}
		if name := valueName(f); f.NoOptDefVal == "" && name != "" && !strings.Contains(f.Usage, "`") {
			// pflag takes the text between backquotes as the name, but also leaves it in the help.
			mark := name + "\x00"
			// The NUL marks the name in the help, so that it can be taken out again.
			shown.Usage = "`" + name + "`\x00" + f.Usage
			marks = append(marks, mark, "")
		}
		named.AddFlag(&shown)
	})
	named.SortFlags = flags.SortFlags
	marks = append(marks, " (default )", "", " (default [])", "")
	return strings.NewReplacer(marks...).Replace(named.FlagUsages())
}

// nameValues makes the help of c and of its subcommands use flagHelp.
func nameValues(c *cobra.Command) {
	cobra.AddTemplateFunc("flagHelp", flagHelp)
	t := c.UsageTemplate()
	for _, flags := range []string{".LocalFlags", ".InheritedFlags"} {
		t = strings.ReplaceAll(t, "{{"+flags+".FlagUsages", "{{flagHelp "+flags)
	}
	c.SetUsageTemplate(t)
}

// help returns the help of a command, wrapped to width columns.
func help(c *cobra.Command, width int) string {
	text := reflow(strings.TrimSpace(cmp.Or(c.Long, c.Short)), width) + "\n"
	if c.Runnable() || c.HasSubCommands() {
		text += "\n" + fold(c.UsageString(), width)
	}
	return text
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/must"
)

// typed matches what a document shows as typed: fenced and indented blocks, and code in a line.
var (
	fenced   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	indented = regexp.MustCompile(`(?m)^    (.*)$`)
	inline   = regexp.MustCompile("`([^`\n]+)`")

	flagName = regexp.MustCompile(`^--?([a-z][a-z0-9_-]*)`)
	anyFlag  = regexp.MustCompile(`(?:^|[\s(])--([a-z][a-z0-9_-]*)`)
)

// foreign are flags of other programs that the documents name.
var foreign = map[string]string{"include": "grep", "add-opens": "java", "factor": "trainings.py", "together": "table.py",
	"lora": "hf_texts.py", "user": "docker", "models": "steps.py", "system-site-packages": "venv", "nproc-per-node": "torchrun"}

// commandLines returns the lines of a text that run minsep, without what follows a pipe, a comment
// or another command.
func commandLines(text string) (lines []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		for _, part := range regexp.MustCompile(`&&|[|;>]`).Split(line, -1) {
			part = strings.TrimPrefix(strings.TrimSpace(part), "$ ")
			part = strings.TrimPrefix(part, "bin/")
			if strings.HasPrefix(part, "minsep ") {
				lines = append(lines, part)
			}
		}
	}
	return lines
}

// wrong says what is wrong with a line that runs minsep: a command or a flag that there is not.
func wrong(root *cobra.Command, line string) (faults []string) {
	words := strings.Fields(line)[1:]
	c, known := root, func(flags *pflag.FlagSet, name string) bool { return flags.Lookup(name) != nil }
	for i, word := range words {
		if match := flagName.FindStringSubmatch(word); match != nil {
			name := match[1]
			if name != "help" && name != "version" && !known(c.Flags(), name) && !known(root.PersistentFlags(), name) {
				faults = append(faults, c.CommandPath()+" has no flag --"+name)
			}
			continue
		}
		if i == 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(word) {
			sub, _, err := root.Find(words[:1])
			if err != nil || sub == root {
				return append(faults, "there is no command "+word)
			}
			c = sub
		}
	}
	return faults
}

// TestDocumentsNameWhatThereIs requires that every line with minsep in README, the documents and
// the help of commands names a command and flags that exist, and that every flag named alone is one
// of some command.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	a := app{stdout: io.Discard}
	root := a.command()
	all := map[string]bool{"help": true, "version": true}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
	texts := map[string]string{}
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
		var help []string
		for line := range strings.Lines(c.Long) { // "Start with:  minsep keygen KEY"
			if _, command, found := strings.Cut(line, "  minsep "); found {
				help = append(help, "minsep "+strings.TrimSpace(command))
			}
		}
		texts["minsep "+c.Name()+" --help"] = "```\n" + strings.Join(help, "\n") + "\n```\n"
	}
	files, err := filepath.Glob("../../docs/*.md")
	background, _ := filepath.Glob("../../docs/background/*.md")
	if err != nil || len(files) < 10 || len(background) < 4 {
		t.Fatalf("%d documents, %d of background: %v", len(files), len(background), err)
	}
	for _, file := range slices.Concat(files, background, []string{"../../README.md"}) {
		content := must.Get(os.ReadFile(file))(t)
		texts[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(content)
	}
	lines, flags := 0, 0
	for name, text := range texts {
		var shown []string
		for _, match := range fenced.FindAllStringSubmatch(text, -1) {
			shown = append(shown, match[1])
		}
		text = fenced.ReplaceAllString(text, "")
		var block strings.Builder
		for _, match := range indented.FindAllStringSubmatch(text, -1) {
			block.WriteString(match[1] + "\n")
		}
		shown = append(shown, block.String())
		for _, match := range inline.FindAllStringSubmatch(text, -1) {
			shown = append(shown, match[1])
			if strings.HasPrefix(match[1], "minsep ") || strings.HasPrefix(match[1], "bin/minsep ") {
				continue // looked at as a line
			}
			for _, f := range anyFlag.FindAllStringSubmatch(match[1], -1) {
				if flags++; !all[f[1]] && foreign[f[1]] == "" {
					t.Errorf("%s: `%s`: no command has the flag --%s", name, match[1], f[1])
				}
			}
		}
		for _, s := range shown {
			for _, line := range commandLines(s) {
				lines++
				for _, fault := range wrong(root, line) {
					t.Errorf("%s: %s: %s", name, line, fault)
				}
			}
		}
	}
	if lines < 30 || flags < 30 {
		t.Errorf("%d lines and %d flags were looked at", lines, flags)
	}
	t.Logf("%d lines and %d flags", lines, flags)
}

// Command blind makes plans for five data sets, certifies the alternatives that they name first,
// and says whether the certificates have the order of the plans. The data sets were chosen before
// any plan was made of them.
//
//	go run ./integration/blind -minsep bin/minsep -out out/blind [-set clinic] [-plans | -report]
//
// It runs in the root of the repository, takes about an hour of processor time, and goes on
// where it was when it is repeated. It prints the tables of docs/planner.md. The budget of each
// certificate is in samples, so that it does not depend on how busy the machine is. It follows
// from the plan by a formula: too few are certified with much more noise, which says nothing of
// the plan.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"minsep/accounting"
	"minsep/accounting/verification"
	"minsep/planner"
	"minsep/sampling"
)

func main() {
	command := flag.String("minsep", "bin/minsep", "the command")
	out := flag.String("out", "out/blind", "folder for all that is made")
	only := flag.String("set", "", "only this data set")
	samples := flag.Uint64("samples", 0, "of each certificate, in place of what the plan says it takes")
	plans := flag.Bool("plans", false, "make the plans only, before a budget is chosen")
	report := flag.Bool("report", false, "run nothing, and print what there is")
	flag.Parse()
	if err := run(work{*command, *out, *samples, *plans, *report}, *only); err != nil {
		fmt.Fprintln(os.Stderr, "blind:", err)
		os.Exit(1)
	}
}

func run(w work, only string) error {
	var all []judged
	for _, s := range sets() {
		if only != "" && s.name != only {
			continue
		}
		j, err := w.judge(s)
		if errors.Is(err, errMissing) {
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, j)
	}
	if len(all) == 0 {
		return fmt.Errorf("-set %q: no such data set, or nothing was run for it", only)
	}
	report(os.Stdout, all)
	return nil
}

// work runs commands and keeps their output in a folder.
type work struct {
	command, out string
	samples      uint64 // of each certificate; 0 for the plan's number
	plans        bool   // nothing is certified
	report       bool   // nothing is run
}

// errMissing says that a command was not run so far.
var errMissing = errors.New("not run")

// timed holds the output of a command, and the processor time it took.
type timed struct {
	Arguments []string        `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	CPU       float64         `json:"cpu_seconds"` // of user and system
	Code      int             `json:"exit_code"`   // 0, or 3 where nothing could be certified
}

// minsep runs a command, or reads its output from when it ran before: its file is NAME.
func (w work) minsep(name string, args ...string) (t timed, err error) {
	file := filepath.Join(w.out, name+".json")
	text, err := os.ReadFile(file)
	if err == nil {
		if err := json.Unmarshal(text, &t); err != nil {
			return t, fmt.Errorf("%s: %w", file, err)
		}
		if !slices.Equal(t.Arguments, args) {
			return t, fmt.Errorf("%s is of other flags, %q, and now they are %q: begin with another -out, or with what it had", file, t.Arguments, args)
		}
		return t, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if w.report {
		return t, errMissing
	}
	fmt.Fprintln(os.Stderr, name+": minsep", strings.Join(args, " "))
	state, err := filepath.Abs(filepath.Join(w.out, "state"))
	if err != nil {
		return t, err
	}
	c := exec.Command(w.command, append(args, "--json")...)
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	var faults bytes.Buffer
	c.Stderr = &faults
	t.Arguments = args
	t.Output, err = c.Output()
	if c.ProcessState == nil {
		return t, fmt.Errorf("-minsep %s: %w", w.command, err)
	}
	t.CPU = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	t.Code = c.ProcessState.ExitCode()
	if err != nil && t.Code != 3 {
		return t, fmt.Errorf("minsep %s: %w\n%s", strings.Join(args, " "), err, faults.String())
	}
	if text, err = json.Marshal(t); err != nil {
		return t, err
	}
	return t, os.WriteFile(file, text, 0o600)
}

// judge plans for a set and certifies the plan's first rows.
func (w work) judge(s set) (judged, error) {
	j := judged{set: s}
	dir := filepath.Join(w.out, s.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return j, err
	}
	args := append([]string{"plan"}, s.flags...)
	if s.graph != "" {
		if err := w.graph(&s, dir); err != nil {
			return j, err
		}
		args = append(args, "--graph", s.graph, "--max-per-owner", strconv.Itoa(s.perOwner))
	}
	plan, err := w.minsep(s.name+"/plan", args...)
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(plan.Output, &j.plan); err != nil {
		return j, err
	}
	j.cpu = plan.CPU
	if w.plans {
		return j, nil
	}
	rows := first(j.plan.Rows)
	j.all = make([]certified, len(rows))
	for _, proven := range []bool{true, false} { // rows that take no samples first
		for i, row := range rows {
			if row.Noise.Proven != proven {
				continue
			}
			j.all[i], err = w.certify(s, dir, j.plan.Request, row, cmp.Or(w.samples, budget(row, rows)))
			if err != nil && !errors.Is(err, errMissing) {
				return j, err
			}
		}
	}
	return j, nil
}

// graph writes the graph of a set where it is one that is made.
func (w work) graph(s *set, dir string) (err error) {
	if s.make == nil {
		return nil
	}
	s.graph = filepath.Join(dir, s.graph)
	f, err := os.Create(s.graph)
	if err != nil {
		return err
	}
	return errors.Join(s.make(f), f.Close())
}

// most is how many alternatives are certified by rank, and alike how many of them may be of one
// scheme, number of examples per owner and unit that is sampled.
const most, alike = 5, 2

// first are the rows to certify: by rank, and the best of each scheme that is not among them.
// Rotation is left out: its graph is bounded in pools.
func first(rows []*planner.Row) (list []*planner.Row) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row *planner.Row) bool { return row.Scheme.Scheme == "rotation" })
	seen, schemes := map[string]int{}, map[string]bool{}
	for _, row := range rows {
		key := fmt.Sprint(row.Scheme.Scheme, row.Scheme.Sample, row.MaxPerOwner)
		if row.Refused == "" && seen[key] < alike && len(list) < most {
			seen[key]++
			schemes[row.Scheme.Scheme] = true
			list = append(list, row)
		}
	}
	for _, row := range rows {
		if row.Refused == "" && !schemes[row.Scheme.Scheme] {
			schemes[row.Scheme.Scheme] = true
			list = append(list, row)
		}
	}
	return list
}

// enough is how many times M/δ samples a certificate takes that accepts up to .85 δ, estimates
// included: 1500 in the verification, by docs/planner.md, and half as many before it. With several
// examples per owner, each of them makes a sample take owners times as long.
const enough, owners = 2250, 3

// budget is how many samples the certificate of one of the rows is given: enough by its own
// M/δ; where its H(Q,P) was not looked at, by the largest M/δ of all rows. It is at most the
// default of account, about a minute of a processor. It follows from the plan, so that nobody
// chooses it after a certificate was seen.
func budget(row *planner.Row, rows []*planner.Row) uint64 {
	effort := row.Noise.Effort
	if row.Noise.OneDirection {
		for _, other := range rows {
			effort = max(effort, other.Noise.Effort)
		}
	}
	most := float64(verification.DefaultSamples(row.Scheme.Steps))
	if row.MaxPerOwner > 1 && row.Scheme.Sample != sampling.SampleOwners {
		most /= float64(owners * row.MaxPerOwner)
	}
	return uint64(min(math.Ceil(enough*effort), most))
}

// certify runs an alternative to its certificate.
func (w work) certify(s set, dir string, r planner.Request, row *planner.Row, samples uint64) (certified, error) {
	c := certified{row: row, samples: samples}
	name := fmt.Sprintf("%s/%03d", s.name, row.Rank)
	strategy := filepath.Join(w.out, name+"-strategy.json")
	params, err := flags(row.Strategy)
	if err != nil {
		return c, err
	}
	if _, err := w.minsep(name+"-made", append([]string{"strategy", "--overwrite", "--out", strategy}, params...)...); err != nil {
		return c, err
	}
	args := []string{"account", "--overwrite", "--out", filepath.Join(w.out, name), "--strategy", strategy,
		"--epsilon", number(r.Epsilon), "--delta", number(r.Delta)}
	if !row.Noise.Proven {
		args = append(args, "--samples", strconv.FormatUint(samples, 10))
	}
	if s.graph == "" {
		args = append(args, "--examples", strconv.FormatInt(row.Examples, 10))
	} else {
		bounded, err := w.bound(s, dir, row.MaxPerOwner)
		if err != nil {
			return c, err
		}
		args = append(args, "--bounded", bounded)
	}
	if params, err = flags(row.Scheme); err != nil {
		return c, err
	}
	t, err := w.minsep(name+"-account", append(args, params...)...)
	if err != nil {
		return c, err
	}
	var found struct {
		Certificate *accounting.Certificate `json:"certificate"`
	}
	if err := json.Unmarshal(t.Output, &found); err != nil {
		return c, err
	}
	c.cpu = t.CPU
	if t.Code == 0 && found.Certificate != nil {
		c.sigma = found.Certificate.NoiseMultiplier
		if c.needed = c.sigma; !row.Noise.Proven {
			c.needed, c.neededErr, err = needed(found.Certificate)
		}
	}
	return c, err
}

// bound bounds a graph, once for each number of examples per owner.
func (w work) bound(s set, dir string, perOwner int) (bounded string, err error) {
	key := filepath.Join(dir, "key")
	if _, err := os.Stat(key); errors.Is(err, fs.ErrNotExist) {
		if err := exec.Command(w.command, "keygen", key).Run(); err != nil {
			return "", err
		}
	}
	bounded = filepath.Join(dir, fmt.Sprintf("bounded-%d", perOwner))
	_, err = w.minsep(fmt.Sprintf("%s/bound-%d", s.name, perOwner), "bound", "--graph", s.graph, "--max-per-owner", strconv.Itoa(perOwner), "--key", key, "--out", bounded)
	return bounded, err
}

// flags returns the flags of parameters, which have the names of their fields.
func flags(params any) (list []string, err error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		var word string
		if json.Unmarshal(value, &word) != nil {
			word = string(value)
		}
		list = append(list, fmt.Sprintf("--%s=%s", strings.ReplaceAll(name, "_", "-"), word))
	}
	slices.Sort(list)
	return list, nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

package report

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
	"minsep/internal/planner"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// fixture is a run with all that a page shows, certified in closed form.
func fixture(t testing.TB) *Run {
	t.Helper()
	strategy := must.Get(mechanism.Toeplitz(40, []float64{1, 0.5, 0.25}))(t)
	run := accounting.Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.2, Steps: 40, MinSep: 4}}, Strategy: strategy, MaxExamplesPerOwner: 1}
	plan := must.Get(calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-5, AlsoEpsilon: []float64{0.5, 4}, CodeVersion: manifest.Version}.Plan(t.Context()))(t)
	c := must.Get(plan.Protocol.Certificate(nil))(t)
	batch := 30.0
	r := new(Run)
	r.Report = inspect.Report{State: inspect.StateCertified, Verdict: "certified: all of it", Folders: []inspect.Inspection{
		{Folder: "some/run/batches", Checks: []sampling.Check{{Name: "order", Rule: "rows ascend", Held: true}}}}}
	r.Certificate, r.Scheme = c, &run.Sampler
	r.Bounded = &ownergraph.Summary{Examples: 1000, Owners: 400, Edges: 1500, Kept: 600, KeptCopies: 600, KeptEdges: 800, DroppedOwnerFull: 400,
		GivenPerOwner: ownergraph.Histogram{{Value: 1, Count: 300}, {Value: 9, Count: 100}}, KeptPerOwner: ownergraph.Histogram{{Value: 0, Count: 10}, {Value: 1, Count: 390}},
		Neighborhoods: ownergraph.Histogram{{Value: 1, Count: 590}, {Value: 5, Count: 10}}}
	r.Batches = &manifest.BatchesFacts{Examples: 600, Steps: 40, ExpectedBatchSize: batch}
	return r
}

func pageOf(t testing.TB, r *Run, o Options) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, r, o))
	return b.String()
}

// tableMarks are attributes of a table's cells, and of its rows.
var tableMarks = regexp.MustCompile(` (role|data-label)="[^"]*"`)

// plain is a page without the attributes of its tables.
func plain(page string) string { return tableMarks.ReplaceAllString(page, "") }

// outside is what a page that needs no network and no script does not have.
var outside = regexp.MustCompile(`(?i)<script|<link|<img|<iframe|<object|@import|url\(|\bon[a-z]+=|javascript:|src=|href="[^#]`)

// TestPage: the page has its parts, needs nothing from outside, and each figure has a text and a
// table.
func TestPage(t *testing.T) {
	text := pageOf(t, fixture(t), Options{})
	for _, want := range []string{"certified: all of it", "ε = 2, δ = 1e-05", "What stays secret", "What the trainer must do", "30, the expected batch size",
		"(2, 1e-05)-differentially private for an owner of whom one example is kept", "In this training, ", "the expected batch size is ", "## Differential privacy", "How it was verified", "Assumed: ", "600 (60 %)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bad := outside.FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	if bars := strings.Count(text, `class="bar"`); bars == 0 || bars != strings.Count(text, `<i style="width: `) {
		t.Errorf("%d bars", bars)
	}
	if open := strings.Count(text, `<details class="fold" open>`); open != 1 {
		t.Errorf("%d sections are open", open)
	}
	ids := regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1)
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id[1]] {
			t.Errorf("identifier %s is there twice", id[1])
		}
		seen[id[1]] = true
	}
	if again := pageOf(t, fixture(t), Options{}); again != text {
		t.Error("the same run gives another page")
	}
}

// TestData: the paragraph to paste says how much data there is and the clip norm, where they are
// known.
func TestData(t *testing.T) {
	r := new(Run)
	r.Bounded, r.Noise = &ownergraph.Summary{Examples: 100_000, Kept: 3127}, &noise.Params{ClipNorm: 2}
	if got, want := data(r), " In this training, 3,127 of 100,000 examples are kept, the clip norm is 2."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := data(new(Run)); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestOtherTrainings: what to paste says what holds where data are replaced, and, of a second run
// in the directory, for both together; of a first run only the former.
func TestOtherTrainings(t *testing.T) {
	r := fixture(t)
	c := r.Certificate
	replaced := fmt.Sprintf("training is (%g, %s)-differentially private", 2*c.Epsilon, accounting.RateUp((1+math.Exp(c.Epsilon))*c.Delta))
	quoted := func() string { s := cite(r); return s.Quotes[0].Text + "\n" + s.Quotes[1].Text }
	if text := quoted(); strings.Count(text, replaced) != 2 || strings.Contains(text, "alone") {
		t.Errorf("a first run: %s", text)
	}
	r.Info = &manifest.Run{Earlier: make([]stream.RunID, 2)}
	together := "The claim is for this training alone. Its table, strategy or certificate are from 2 runs before, on the same data; minsep compose adds up the claims"
	if text := quoted(); strings.Count(text, together) != 2 {
		t.Errorf("a third run: %s\nwant %s", text, together)
	}
	c.Points[0].Delta, c.Delta = .4, .4
	if text := quoted(); strings.Contains(text, "Where other data") || strings.Contains(text, "all 3") {
		t.Errorf("delta of 1 or more is shown: %s", text)
	}
}

// TestNotProven: a page without a proof neither promises anything nor looks as if it did.
func TestNotProven(t *testing.T) {
	r := fixture(t)
	r.State, r.Certificate.Status, r.Certificate.Reason = inspect.StateNotCertified, accounting.NotProven, "nobody knows"
	text := pageOf(t, r, Options{})
	for _, want := range []string{`class="verdict" data-state="not certified"`, "What is claimed and not proven, and for whom", "Nothing in this section is proven"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "What is promised") || strings.Contains(text, ".verdict.certified") {
		t.Error("the page promises what is not proven")
	}
	r = fixture(t)
	r.State = inspect.StateBroken
	text = pageOf(t, r, Options{})
	for _, want := range []string{"What is claimed and not proven, and for whom", "Nothing is promised as long as a check is broken", "Nothing in this section is proven"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of a broken run lacks %q", want)
		}
	}
	for _, claim := range []string{"What is promised", "<td>certified</td>", "bound, certified", "-differentially private for"} {
		if strings.Contains(plain(text), claim) {
			t.Errorf("the page of a broken run has %q", claim)
		}
	}
}

// TestHostile: names and fields that a directory brings are text, wherever they are shown.
func TestHostile(t *testing.T) {
	const attack = `"><script>alert(1)</script><img src=x onerror=alert(1)>' {{.}} </svg> javascript:`
	r := fixture(t)
	r.Verdict, r.State = attack, attack
	r.Folders[0].Folder = "x/" + attack
	r.Folders[0].Checks[0] = sampling.Check{Name: attack, Rule: attack}
	r.Folders[0].Notes = []string{attack}
	r.Certificate.Adjacency, r.Certificate.Status = attack, accounting.Status(attack)
	r.Certificate.Reason, r.Certificate.CodeVersion, r.Certificate.ProtocolSHA256 = attack, attack, attack
	r.Certificate.Assumptions = []accounting.Assumption{{Text: attack, Source: attack}}
	r.Certificate.Run.Strategy.Kind = attack
	r.Info = &manifest.Run{Version: attack}
	text := pageOf(t, r, Options{})
	if strings.Contains(text, "<script") || strings.Contains(text, "<img") || !strings.Contains(text, "&lt;script") {
		t.Error("a field of the directory is markup")
	}
}

// TestExtremes: numbers, texts and lists of any size give a page of a bounded size, without
// characters that turn the order of others.
func TestExtremes(t *testing.T) {
	const turned = "a\u202ereversed\u2066\u200b\x00\x1b[31m\xff"
	r := fixture(t)
	r.Verdict = turned + strings.Repeat("x", 1<<20)
	r.Certificate.Adjacency, r.Certificate.Reason = turned, strings.Repeat("é", 1<<20)
	for i := range 20_000 {
		r.Folders[0].Notes = append(r.Folders[0].Notes, fmt.Sprint("note", i))
		r.Folders[0].Checks = append(r.Folders[0].Checks, sampling.Check{Name: "check", Rule: fmt.Sprint(i), Held: i%2 == 0})
	}
	for len(r.Certificate.Points) < accounting.MostPoints {
		r.Certificate.Points = append(r.Certificate.Points, r.Certificate.Points[0])
	}
	huge := ownergraph.Histogram{{Value: 1, Count: math.MaxInt64}, {Value: math.MaxInt64, Count: -5}}
	r.Bounded = &ownergraph.Summary{Examples: math.MaxInt64, Kept: -1, KeptCopies: math.MaxInt64, GivenPerOwner: huge, Neighborhoods: huge}
	pages := []string{pageOf(t, r, Options{})}
	r.Bounded = &ownergraph.Summary{}
	r.Scheme = &sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.02, Steps: 1_000_000}}
	r.Baseline = &planner.Beside{Ratio: math.Inf(1), Relative: math.NaN()}
	pages = append(pages, pageOf(t, r, Options{}))
	r.Scheme = &sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.5, Steps: sampling.MaxSteps}}
	pages = append(pages, pageOf(t, r, Options{}))
	for i, text := range pages {
		if len(text) > 2<<20 {
			t.Errorf("page %d has %d bytes", i, len(text))
		}
		if at := strings.IndexFunc(text, func(r rune) bool { return r == '\u202e' || r == '\u2066' || r == '\u200b' || r == 0x1b || r == 0 }); at >= 0 {
			t.Errorf("page %d has %q", i, text[at:at+20])
		}
		if !utf8.ValidString(text) || !strings.Contains(text, "19,000 more, which are not shown") || !strings.Contains(text, "more characters") {
			t.Errorf("page %d is not valid, or does not say what it leaves out", i)
		}
		if bad := regexp.MustCompile(`width: (NaN|[^;"]*Inf|-|[0-9]{4})`).FindString(text); bad != "" {
			t.Errorf("page %d has a bar of %s", i, bad)
		}
	}
}

// TestPartial: a page is made of whatever there is, and says what it means.
func TestPartial(t *testing.T) {
	full := fixture(t)
	certificate := inspect.Contents{Certificate: full.Certificate}
	certified := inspect.Report{State: full.State, Verdict: full.Verdict}
	with := func(r inspect.Report, of inspect.Contents) inspect.Report { r.Contents = of; return r }
	for name, r := range map[string]inspect.Report{
		"nothing":     {State: inspect.StateNotCertified, Verdict: "NOT CERTIFIED: there is no certificate"},
		"broken":      with(inspect.Report{State: inspect.StateBroken, Verdict: "BROKEN: order"}, certificate),
		"certificate": with(certified, inspect.Contents{Certificate: full.Certificate, Scheme: full.Scheme}),
		"fixed":       with(certified, inspect.Contents{Scheme: &sampling.Spec{Fixed: &sampling.Fixed{Steps: 8, MinSep: 2, BatchSize: 3}}}),
	} {
		text := pageOf(t, &Run{Report: r}, Options{})
		want := map[string]string{"nothing": "makes a certificate", "broken": "Do not train", "certificate": "What that means", "fixed": "3 of 0"}[name]
		if !strings.Contains(text, want) || strings.Contains(text, "NaN") {
			t.Errorf("%s: the page lacks %q, or has NaN", name, want)
		}
	}
}

// TestLead: a page says at its top that DP-SGD is better, and that no samples were taken.
func TestLead(t *testing.T) {
	r := fixture(t)
	r.Baseline = r.baseline()
	if r.Baseline.Ratio <= 1 {
		t.Fatalf("%+v", r.Baseline)
	}
	top, _, _ := strings.Cut(pageOf(t, r, Options{}), "<nav")
	if want := fmt.Sprintf("worse than DP-SGD, which has the same claim with less noise: this run has %.3g times as much", r.Baseline.Ratio); !strings.Contains(top, want) {
		t.Errorf("the top of the page lacks %q", want)
	}
	if strings.Contains(top, "needs no samples") {
		t.Error("a claim that takes none says that it took none")
	}
	r.Baseline.Ratio = 0.9
	r.Certificate.Run.Sampler = sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 4}}
	top, _, _ = strings.Cut(pageOf(t, r, Options{}), "<nav")
	if strings.Contains(top, "DP-SGD") || !strings.Contains(top, "needs no samples; a larger budget") {
		t.Error("the top of the page has DP-SGD, or lacks that no samples were taken")
	}
	r.Certificate.Points[0].Directions[1].Samples = 5
	if top, _, _ = strings.Cut(pageOf(t, r, Options{}), "<nav"); strings.Contains(top, "no samples") {
		t.Error("a claim with samples says that it took none")
	}
}

// TestBaseline holds DP-SGD beside a run against the noise multiplier on a fine grid of losses.
func TestBaseline(t *testing.T) {
	b := fixture(t).baseline()
	e := must.Get(mechanism.Identity(40).Error(mechanism.Prefix(40)))(t)
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.05, Steps: 40}}, Strategy: mechanism.Identity(40), MaxExamplesPerOwner: 1}
	sigma := must.Get(run.Calibrate(t.Context(), 2, 1e-5))(t)
	if want := sigma * e.RMSE / 30; math.Abs(b.Relative/want-1) > 1e-3 {
		t.Errorf("%g, want %g", b.Relative, want)
	}
	for _, change := range []func(r *Run){func(r *Run) { r.State = inspect.StateBroken }, func(r *Run) { r.Certificate = nil }, func(r *Run) { r.Certificate.Status = accounting.NotProven },
		func(r *Run) { r.Batches, r.Bounded = nil, nil }} {
		r := fixture(t)
		change(r)
		if b := r.baseline(); b != nil {
			t.Errorf("%+v is compared with DP-SGD", r.Report)
		}
	}
}

// TestMark: a page begins with the mark by which it is known as one.
func TestMark(t *testing.T) {
	if !strings.Contains(pageOf(t, fixture(t), Options{})[:1024], manifest.ReportMark) {
		t.Error("the page does not begin with its mark")
	}
}

// TestReplaced: the claim for replaced data is called weak where its δ is not below 1/owners.
func TestReplaced(t *testing.T) {
	c := &accounting.Certificate{Epsilon: 8, Delta: 1e-5} // for replaced data δ is 0.0298, above 1/34
	for owners, weak := range map[int64]bool{0: false, 33: false, 34: true, 3169: true} {
		if text := replaced(c, owners); strings.Contains(text, "weak") != weak || !strings.Contains(text, "δ = 0.0299") {
			t.Errorf("%d owners: %s", owners, text)
		}
	}
}

// TestWorkload: a page measures noise by the training of the run's plan, as minsep plan does.
func TestWorkload(t *testing.T) {
	plan := `{"examples": 9, "scheme": {"scheme": "poisson", "steps": 8, "prob": 0.1}, "privacy": {"epsilon": 1, "delta": 1e-5}, "strategy": {"kind": "identity", "memory": %d}}`
	for memory, want := range map[int]mechanism.Params{3: {Training: mechanism.Training{Memory: 3}}} {
		r := new(Run)
		r.Info = &manifest.Run{Plan: &manifest.RunPlan{Plan: []byte(fmt.Sprintf(plan, memory))}}
		if got := r.workload(); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v", memory, got)
		}
	}
	if got := (&Run{}).workload(); !reflect.DeepEqual(got, mechanism.Params{}) {
		t.Errorf("without a plan: %+v", got)
	}
}

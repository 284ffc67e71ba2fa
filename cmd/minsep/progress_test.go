package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"minsep/internal/transforms/progress"
)

// liveScreen is a terminal of so many columns that knows "\r" and "erase to the end of the line".
type liveScreen struct {
	width int
	lines [][]rune
	x, y  int
}

func (s *liveScreen) Write(b []byte) (int, error) {
	text := strings.ReplaceAll(string(b), "\x1b[K", "\x00")
	for _, r := range text {
		for len(s.lines) <= s.y {
			s.lines = append(s.lines, nil)
		}
		switch r {
		case '\r':
			s.x = 0
		case '\n':
			s.x, s.y = 0, s.y+1
		case 0:
			s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
		default:
			if s.x == s.width {
				s.x, s.y = 0, s.y+1
				for len(s.lines) <= s.y {
					s.lines = append(s.lines, nil)
				}
			}
			s.lines[s.y] = append(s.lines[s.y][:s.x], append([]rune{r}, s.lines[s.y][min(s.x+1, len(s.lines[s.y])):]...)...)
			s.x++
		}
	}
	return len(b), nil
}

// TestNarrowTerminal: whatever the width, one line is used, and nothing of it is left.
func TestNarrowTerminal(t *testing.T) {
	progress.Reset()
	defer progress.Reset()
	for _, width := range []int{1, 2, 20, 40, 79, 80, 300} {
		s := &liveScreen{width: width}
		line := &liveLine{s, func() int { return width }}
		for i := range 5 {
			progress.Enter("verifying candidate 2 of 5, direction H(P,Q): a text that is σ wide", "samples", int64(1000*i), 123_456_789)
			line.show(progressText("account", time.Minute))
			if len(s.lines) != 1 || len(s.lines[0]) > width {
				t.Fatalf("width %d: %d lines: %q", width, len(s.lines), s.lines)
			}
		}
		if width >= 40 && !strings.HasPrefix(string(s.lines[0]), "account  1m0s  verifying candidate") {
			t.Errorf("width %d: %q", width, string(s.lines[0]))
		}
		line.clear()
		if len(s.lines[0]) > 0 {
			t.Errorf("width %d: %q is left", width, string(s.lines[0]))
		}
	}
}

// TestPhases: rates and the time left are those of the phase.
func TestPhases(t *testing.T) {
	progress.Reset()
	defer progress.Reset()
	progress.Enter("estimating σ: candidate 1", "samples", 500, 1000)
	if got := progressText("account", time.Hour); !strings.Contains(got, "account  1h0m0s  estimating σ: candidate 1  samples 500 of 1,000 (") || !strings.Contains(got, " left)") {
		t.Errorf("got %q", got)
	}
	begin := progress.Now().Begin
	progress.Enter("estimating σ: candidate 1", "samples", 600, 1000)
	if progress.Now().Begin != begin || progress.Now().Done != 600 {
		t.Error("a phase that goes on began again")
	}
	progress.Enter("tables", "", 0, 0)
	if got := progressText("account", time.Second); got != "account  1s  computing tables, 0s so far" {
		t.Errorf("got %q", got)
	}
	progress.Enter("tables", "work", 500, 1500)
	if got := progressText("account", time.Second); got != "account  1s  computing tables, 0s so far, about 0s left" {
		t.Errorf("got %q", got)
	}
	progress.Enter("looking for a σ", "", 0, 0)
	progress.Limit(90*time.Second + 100*time.Millisecond)
	if got := progressText("account", time.Second); got != "account  1s  looking for a σ  at most 1m30s left" {
		t.Errorf("got %q", got)
	}
	if progress.Enter("looking for a σ", "", 0, 0); strings.Contains(progressText("account", time.Second), "left") {
		t.Error("a limit stays where it was not said again")
	}
	c := progress.Count{Name: "samples", Total: 300, Before: 100, Expected: 500}
	if left, ok := c.Left(10 * time.Second); !ok || left != 10*time.Second {
		t.Errorf("200 in 10 s, and 200 to do: %v left", left)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestLongPhases: the line of a phase without counts changes while it goes on.
func TestLongPhases(t *testing.T) {
	for elapsed, want := range map[time.Duration]string{time.Second: "", 5 * time.Second: ", for 5s", 100 * time.Second: ", for 1m40s"} {
		if got := longTime(elapsed); got != want {
			t.Errorf("after %v: %q, want %q", elapsed, got, want)
		}
	}
}

// TestNoRateYet: before anything is counted in a phase there is no rate.
func TestNoRateYet(t *testing.T) {
	progress.Reset()
	defer progress.Reset()
	progress.Enter("verifying candidate 1 of 2", "samples", 0, 1000)
	if got := progressText("account", time.Second); got != "account  1s  verifying candidate 1 of 2  samples 0 of 1,000" {
		t.Errorf("got %q", got)
	}
}

// TestLinesBecomeRare: where lines stay, a job of an hour leaves about one a minute, and a short
// one a few.
func TestLinesBecomeRare(t *testing.T) {
	var at []int
	for next, now := time.Duration(0), 10; now <= 600; now += 10 {
		if elapsed := time.Duration(now)*time.Second - 3*time.Millisecond*time.Duration(now%7); elapsed >= next {
			at, next = append(at, now), nextLine(elapsed)
		}
	}
	if want := []int{10, 20, 40, 80, 140, 200, 260, 320, 380, 440, 500, 560}; !slices.Equal(at, want) {
		t.Errorf("lines at %v s, want %v", at, want)
	}
}

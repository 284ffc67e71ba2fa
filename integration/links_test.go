package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minsep/internal/must"
)

var (
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	inHeading   = regexp.MustCompile("[`*\\[\\]]|\\([^)]*\\)") // marks, and the targets of links
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the names that links may have after #.
func anchors(page string) map[string]bool {
	names := map[string]bool{"": true}
	for _, m := range namedAnchor.FindAllStringSubmatch(page, -1) {
		names[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(inHeading.ReplaceAllString(m[1], "")), "")
		names[strings.ReplaceAll(text, " ", "-")] = true
	}
	return names
}

// TestLinks: links between documents lead to files and headings that exist.
func TestLinks(t *testing.T) {
	links := 0
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/background/*.md", "../python/*.md", "../deploy/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files: %v", pattern, len(files), err)
		}
		for _, file := range files {
			page := must.Get(os.ReadFile(file))(t)
			for _, m := range linkTarget.FindAllStringSubmatch(string(page), -1) {
				path, anchor, _ := strings.Cut(m[1], "#")
				if !strings.Contains(m[1], ".md") && anchor == "" || strings.HasPrefix(m[1], "http") {
					continue
				}
				links++
				target := file
				if path != "" {
					target = filepath.Join(filepath.Dir(file), path)
				}
				text, err := os.ReadFile(target)
				if err != nil {
					t.Errorf("%s: link to %s: %v", file, m[1], err)
				} else if !anchors(string(text))[anchor] {
					t.Errorf("%s: link to %s: no such heading", file, m[1])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links: were they read?", links)
	}
}

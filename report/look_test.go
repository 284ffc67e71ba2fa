package report

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// browser is Chromium, by its names on Debian and elsewhere.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("TestLook: chromium is not installed: make look fetches it on Debian")
	return ""
}

// browse runs the browser without a window, and returns what it prints.
func browse(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args = append([]string{"--headless=new", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + t.TempDir()}, args...)
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	c := exec.CommandContext(ctx, program, args...)
	var out, faults bytes.Buffer
	c.Stdout, c.Stderr = &out, &faults
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, faults.String())
	}
	return out.String()
}

const (
	phoneWidth, desktopWidth = 360, 1280

	leastWindow = 500 // the browser makes none that is narrower
)

// inFrames is a page that shows another one at several widths, and writes down how wide each comes
// out.
func inFrames(page string, height int, widths ...int) string {
	text := "<!DOCTYPE html><body style='margin:0'>"
	for _, w := range widths {
		text += fmt.Sprintf(`<iframe width=%d height=%d style="border:0" srcdoc="%s"></iframe>`, w, height, html.EscapeString(page))
	}
	return text + `<pre id=measured></pre><script>onload = () => { for (const f of document.querySelectorAll("iframe")) {
		const d = f.contentDocument, small = [...d.querySelectorAll("p,li,td,dd")].filter(e => parseFloat(getComputedStyle(e).fontSize) < 12).length;
		measured.textContent += "width " + f.width + " wide " + d.documentElement.scrollWidth + " small " + small + " pale " + [...d.querySelectorAll("svg text")].filter(e => getComputedStyle(e).fill != getComputedStyle(d.body).color).length + " figures " + d.querySelectorAll("svg").length + " high " + d.documentElement.scrollHeight + ";" } }</script>`
}

// TestLook opens the page in a browser: at phone and desktop widths nothing is wider than the
// window, and on paper it has pages. With MINSEP_LOOK, a folder, it leaves screenshots in both
// themes and a PDF there; MINSEP_LOOK_PAGE is a page to take in place of the test's.
func TestLook(t *testing.T) {
	program := browser(t)
	page := pageOf(t, fixture(t), Options{})
	if own := os.Getenv("MINSEP_LOOK_PAGE"); own != "" {
		b, err := os.ReadFile(own)
		if err != nil {
			t.Fatal(err)
		}
		page = string(b)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file://" + path
	}
	dom := browse(t, program, "--dump-dom", "--blink-settings=preferredColorScheme=0", "--window-size=1600,1200", write("frames.html", inFrames(page, 900, phoneWidth, 768, desktopWidth)))
	measured := regexp.MustCompile(`width (\d+) wide (\d+) small (\d+) pale (\d+) figures (\d+) high (\d+);`).FindAllStringSubmatch(dom, -1)
	if len(measured) != 3 {
		t.Fatalf("the browser measured %v", measured)
	}
	for _, m := range measured {
		if m[1] != m[2] || m[3] != "0" || m[4] != "0" || m[5] == "0" {
			t.Errorf("in a window of %s the page is %s wide, with %s small texts, %s that are not in the colour of the text, and %s figures", m[1], m[2], m[3], m[4], m[5])
		}
	}
	url := write("page.html", page)
	look := os.Getenv("MINSEP_LOOK")
	if look == "" {
		return
	}
	if err := os.MkdirAll(look, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if look, err = filepath.Abs(look); err != nil {
		t.Fatal(err)
	}
	pdf := filepath.Join(look, "paper.pdf")
	browse(t, program, "--print-to-pdf="+pdf, "--no-pdf-header-footer", url)
	if b, err := os.ReadFile(pdf); err != nil || !strings.HasPrefix(string(b), "%PDF-") || strings.Count(string(b), "/Type /Page\n") < 2 {
		t.Errorf("the page on paper: %d bytes, %v", len(b), err)
	}
	for _, m := range measured { // of the whole page, not of what a window of some height shows
		kind, high := map[string]string{fmt.Sprint(phoneWidth): "phone", fmt.Sprint(desktopWidth): "desktop"}[m[1]], m[6]
		if kind == "" {
			continue
		}
		height, err := strconv.Atoi(high)
		if err != nil {
			t.Fatal(err)
		}
		width, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		frame := write(kind+".html", inFrames(page, height, width))
		for name, scheme := range map[string]string{"light": "1", "dark": "0"} {
			browse(t, program, "--blink-settings=preferredColorScheme="+scheme, fmt.Sprintf("--window-size=%d,%d", max(width, leastWindow), height),
				"--screenshot="+filepath.Join(look, kind+"-"+name+".png"), frame)
		}
	}
	t.Logf("screenshots and paper.pdf are in %s", look)
}

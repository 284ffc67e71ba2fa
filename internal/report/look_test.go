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

	"minsep/internal/accounting"
	"minsep/internal/inspect"
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

// browse runs the browser without a window, and returns its output.
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

	dark, light = "0", "1" // as the browser numbers them

	leastWindow = 500 // the browser makes none that is narrower
)

// measurement writes down of each frame how wide and high its page comes out, and how many of its
// texts, those of figures with them, are smaller than 12 pixels, how many of figures are not in the
// colour of the text, and how many have a contrast below 4.5 to what is behind them.
const measurement = `onload = () => { for (const f of document.querySelectorAll("iframe")) {
	const d = f.contentDocument, style = e => f.contentWindow.getComputedStyle(e), all = s => [...d.querySelectorAll(s)]
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
	const behind = e => { for (; e; e = e.parentElement) { const c = style(e).backgroundColor; if (c.startsWith("rgb(")) return c } return "rgb(255, 255, 255)" }
	const faint = e => { const a = light(style(e).color), b = light(behind(e)); return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5 }
	const drawn = e => { const s = e.ownerSVGElement; return s ? s.getBoundingClientRect().width / s.viewBox.baseVal.width : 1 }
	const small = all("p,li,td,dd,svg text").filter(e => parseFloat(style(e).fontSize) * drawn(e) < 12).length
	const pale = all("svg text").filter(e => style(e).fill != style(d.body).color).length
	const dim = all("p,li,td,th,dt,dd,h1,h2,h3,a,summary,figcaption,pre,footer,.verdict").filter(faint).length
	const root = d.documentElement
	measured.textContent += "width " + f.width + " wide " + root.scrollWidth + " small " + small + " pale " + pale + " dim " + dim + " figures " + all("svg").length + " high " + root.scrollHeight + ";" } }`

// inFrames is a page that shows others at several widths, and measures them.
func inFrames(height int, widths []int, pages ...string) string {
	text := "<!DOCTYPE html><body style='margin:0'>"
	for _, page := range pages {
		for _, w := range widths {
			text += fmt.Sprintf(`<iframe width=%d height=%d style="border:0" srcdoc="%s"></iframe>`, w, height, html.EscapeString(page))
		}
	}
	return text + "<pre id=measured></pre><script>" + measurement + "</script>"
}

// TestLook opens pages in a browser, of a run, of one that is not proven, and of two runs: at phone
// and desktop widths nothing is wider than the window or hard to read, in either theme, and on
// paper the first has pages. With MINSEP_LOOK, a folder, it leaves screenshots in both themes and a
// PDF there; MINSEP_LOOK_PAGE is a page to take in place of the test's.
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
	pages := []string{page}
	if os.Getenv("MINSEP_LOOK_PAGE") == "" {
		claimed := fixture(t)
		claimed.Report.State, claimed.Certificate.Status, claimed.Certificate.Reason = inspect.StateNotCertified, accounting.NotProven, "nobody knows"
		pages = append(pages, pageOf(t, claimed, Options{}))
	}
	frames := write("frames.html", inFrames(900, []int{phoneWidth, 768, desktopWidth}, pages...))
	var measured [][]string
	for _, scheme := range []string{dark, light} {
		dom := browse(t, program, "--dump-dom", "--blink-settings=preferredColorScheme="+scheme, "--window-size=1600,1200", frames)
		measured = regexp.MustCompile(`width (\d+) wide (\d+) small (\d+) pale (\d+) dim (\d+) figures (\d+) high (\d+);`).FindAllStringSubmatch(dom, -1)
		if len(measured) != 3*len(pages) {
			t.Fatalf("the browser measured %v", measured)
		}
		for i, m := range measured {
			if m[1] != m[2] || m[3] != "0" || m[4] != "0" || m[5] != "0" || m[6] == "0" {
				t.Errorf("in a window of %s, page %d is %s wide, with %s small texts, %s that are not in the colour of the text, %s of low contrast, and %s figures (colour scheme %s)", m[1], i/3, m[2], m[3], m[4], m[5], m[6], scheme)
			}
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
	for _, m := range measured[:3] { // of the whole page, not of what a window of some height shows
		kind, high := map[string]string{fmt.Sprint(phoneWidth): "phone", fmt.Sprint(desktopWidth): "desktop"}[m[1]], m[7]
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
		frame := write(kind+".html", inFrames(height, []int{width}, page))
		for name, scheme := range map[string]string{"light": light, "dark": dark} {
			browse(t, program, "--blink-settings=preferredColorScheme="+scheme, fmt.Sprintf("--window-size=%d,%d", max(width, leastWindow), height),
				"--screenshot="+filepath.Join(look, kind+"-"+name+".png"), frame)
		}
	}
	t.Logf("screenshots and paper.pdf are in %s", look)
}

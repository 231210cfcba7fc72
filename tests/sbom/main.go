// Command sbom writes what a Go binary is made of as CycloneDX 1.6: `sbom FILE > FILE.cdx.json`. It says what the binary itself says (the build info that the linker
// puts in, as `go version -m` shows it): the modules with their versions and checksums, and the Go release. The same binary gives the same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Purl       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func write(w io.Writer, file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read build info of %s: %w", file, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	b.Metadata.Component = component{
		Type: "application", Ref: purl(info.Main.Path, ""), Name: filepath.Base(file), Purl: purl(info.Main.Path, ""),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Properties: settings(info.Settings),
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // what follows are experiments
	b.Components = []component{{Type: "library", Ref: purl("std", goVersion), Name: "std", Version: goVersion, Purl: purl("std", goVersion)}}
	for _, m := range info.Deps {
		b.Components = append(b.Components, module(m, info.Main.Path))
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// settings tell for which processor and with which tags it was built.
func settings(all []debug.BuildSetting) (list []property) {
	for _, s := range all {
		if strings.HasPrefix(s.Key, "GO") || s.Key == "-tags" || s.Key == "CGO_ENABLED" {
			list = append(list, property{"go:" + strings.TrimPrefix(s.Key, "-"), s.Value})
		}
	}
	return list
}

// module is a dependency as it is linked: what replaces another module stands in its place, which it names. A replacement without a version is part of
// the main module's own tree.
func module(m *debug.Module, root string) component {
	c := component{Type: "library", Name: m.Path, Version: m.Version, Purl: purl(m.Path, m.Version)}
	sum := m.Sum
	if r := m.Replace; r != nil {
		c.Properties = append(c.Properties, property{"go:replaces", m.Path + "@" + m.Version})
		c.Name, c.Version, c.Purl, sum = r.Path, r.Version, purl(r.Path, r.Version), r.Sum
		if strings.HasPrefix(r.Path, ".") {
			c.Version = ""
			c.Name = root + "/" + strings.TrimPrefix(filepath.ToSlash(r.Path), "./")
			c.Purl = purl(root, "") + "#" + strings.TrimPrefix(filepath.ToSlash(r.Path), "./")
		}
	}
	if c.Ref = c.Purl; sum != "" {
		c.Properties = append(c.Properties, property{"go:sum", sum})
	}
	return c
}

// purl is the package's URL: https://github.com/package-url/purl-spec, type golang.
func purl(path, version string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	p := "pkg:golang/" + strings.Join(parts, "/")
	if version != "" {
		p += "@" + url.QueryEscape(version)
	}
	return p
}

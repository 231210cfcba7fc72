package rig

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"

	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
)

// fleetName is the fleet of tests.
const fleetName = "plant"

// FleetKey is a key that is always the same: root, release and deploy are the roles' of the fleet of tests.
func FleetKey(name string) signed.KeySigner {
	seed := sha256.Sum256([]byte("weir test key " + name))
	return signed.KeySigner(ed25519.NewKeyFromSeed(seed[:]))
}

// FleetRoot is the signed root document of the fleet of tests.
func FleetRoot(ctx context.Context) ([]byte, error) {
	grant := func(name string) signed.Grant {
		return signed.Grant{Threshold: 1, Since: 1, Keys: []signed.KeyID{FleetKey(name).ID()}}
	}
	root := signed.Root{Fleet: fleetName, Version: 1, CreatedMs: 1_780_000_000_000, Roles: signed.Grants{Root: grant("root"), Release: grant("release"), Deploy: grant("deploy")}}
	for _, name := range []string{"root", "release", "deploy"} {
		root.Keys = append(root.Keys, signed.NewRootKey(FleetKey(name).Public(), name))
	}
	payload, err := root.Encode()
	if err != nil {
		return nil, err
	}
	return seal(ctx, signed.TypeRoot, payload, "root")
}

func seal(ctx context.Context, typ string, payload []byte, by string) ([]byte, error) {
	e, err := signed.Seal(ctx, typ, payload, FleetKey(by))
	if err != nil {
		return nil, err
	}
	return e.Bytes(), nil
}

// releaseChunk is how large the pieces are that releases of tests name.
const releaseChunk = 1 << 20

// Release is the signed manifest of a program, for this machine and the backend self. change may change it before; nil: it stays.
func Release(ctx context.Context, file, version string, change func(*document.Release)) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	whole := sha256.Sum256(b)
	a := document.Artifact{Backend: "self", Arch: runtime.GOARCH, Bytes: int64(len(b)), SHA256: hex.EncodeToString(whole[:]), ChunkBytes: releaseChunk, Compat: compat.Current()}
	for ; len(b) > 0; b = b[min(releaseChunk, len(b)):] {
		sum := sha256.Sum256(b[:min(releaseChunk, len(b))])
		a.Chunks = append(a.Chunks, hex.EncodeToString(sum[:]))
	}
	r := &document.Release{Fleet: fleetName, Version: version, CreatedMs: 1_780_000_000_001, SecureVersion: 1, Artifacts: []document.Artifact{a}}
	if change != nil {
		change(r)
	}
	payload, err := r.Encode()
	if err != nil {
		return nil, err
	}
	return seal(ctx, signed.TypeRelease, payload, "release")
}

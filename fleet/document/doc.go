// Package document has what the signed documents of a fleet say (fleet/FORMAT.md): types, strict decoding, checks of form. It knows neither keys nor where documents lie, and
// decides nothing about a gateway but what a document itself says.
package document

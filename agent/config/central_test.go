package config

// The examples and messages of the whole program are held to their word in every build.
func init() { centralBuilt, encryptBuilt = true, true }

#!/usr/bin/env bash
# Puts a real MySQL into the environment, for the tests of `make mysql`: Debian has it in "unstable" alone, so its packages and the
# libraries that they need are unpacked into a folder of the environment, and nothing is installed. Does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

target=.venv/share/dts-assets/mysql
packages=(mysql-server-core mysql-client-core)

say() { printf 'mysql: %s\n' "$*" >&2; }
stop() { say "$*"; exit 13; } # the exit code of dts_assets.errors.MachineError

if [ -d $target ]; then exit 0; fi
for program in apt-get dpkg-deb; do
    command -v $program >/dev/null || stop "MySQL comes from Debian's packages, and there is no $program on this machine."
done
# The mirror that this machine has its own packages from has the unstable ones, too.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Component: main" | grep -E '/debian/?$' | head -n 1) ||
    stop "This machine has no mirror of Debian among its sources of packages."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,archives/partial,root}
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$work/sources.list"
cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::status "$work/status";
Dir::State::lists "$work/lists";
Dir::Cache "$work";
Dir::Cache::archives "$work/archives";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Debug::NoLocking "true";
CONF
say "fetching ${packages[*]} and their libraries (once)"
export APT_CONFIG="$work/apt.conf"
apt-get -qq update >&2 || stop "The lists of Debian's unstable packages could not be fetched."
apt-get -qq -y --download-only install "${packages[@]}" >&2 || stop "The packages of MySQL could not be fetched."
for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
mkdir -p "$(dirname $target)"
rm -rf $target.part
cp -a "$work/root" $target.part
mv $target.part $target
say "done"

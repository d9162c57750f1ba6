#!/usr/bin/env bash
# Brings a machine to where everything in the Makefile works: a Python, a Java, the binaries of MariaDB and PostgreSQL, the locked
# packages in .venv, the jars of Iceberg and Kafka, an archive of Spark's classes. Does nothing when the last run left nothing to do. Asks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.setup
min_java=17

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { say "$*"; exit 13; } # the exit code of dts_assets.errors.MachineError

# What was installed: another lock, another set of requirements, another version of this script or another Java is work to do.
fingerprint() { { cat requirements.lock scripts/setup.sh; "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1; sed "/^\[tool\.ruff\]/,\$d" pyproject.toml; } | sha256sum | cut -d" " -f1; }

java_version() { # the major version of the Java that Spark would start; nothing without one
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    { "$java" -version 2>&1 || true; } | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

has_java() { [ "$(java_version | grep . || echo 0)" -ge "$min_java" ]; }

has_mariadb() { # the server, and the tool that replays its binlogs
    local PATH="$PATH:/usr/sbin:/usr/local/sbin"
    command -v mariadbd mysqld >/dev/null && command -v mariadb-binlog mysqlbinlog >/dev/null
}

has_postgres() { # the server; Debian keeps it in a folder of each version
    command -v initdb >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}

python_works() { # an interpreter of a supported version; one that can make environments, where "venv" is asked for
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1 || return 1
    [ "${2:-}" != venv ] || "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if python_works "$candidate" "${1:-}"; then echo "$candidate"; return; fi
    done
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

can_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

apt_install() {
    say "installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" </dev/null >&2
}

apt_install_postgres() { # for tests, which start a private server: Debian's package would make one of the machine, too
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" | as_root tee /etc/postgresql-common/createcluster.d/dts-assets.conf >/dev/null
    apt_install postgresql || say "PostgreSQL could not be installed; going on without it"
}

first_known() { # the first of some package names that this distribution has
    local package
    for package in "$@"; do
        if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then echo "$package"; return; fi
    done
}

system_packages() {
    local wanted=() python
    python=$(find_python venv)
    has_java || wanted+=(java)
    has_mariadb || wanted+=(mariadb)
    has_postgres || wanted+=(postgres)
    [ -n "$python" ] || [ -x $venv/bin/python ] || wanted+=(python)
    [ ${#wanted[@]} -gt 0 ] || return 0
    if can_install; then
        as_root apt-get update -q </dev/null >&2 || say "apt-get update failed; going on with the package lists that are there"
        case " ${wanted[*]} " in *" java "*)
            apt_install "$(first_known openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless)" ;;
        esac
        # The binaries only: the emulator starts a private server, and no service is wanted on the machine.
        case " ${wanted[*]} " in *" mariadb "*) apt_install mariadb-server-core mariadb-client ;; esac
        case " ${wanted[*]} " in *" postgres "*) apt_install_postgres ;; esac
        case " ${wanted[*]} " in *" python "*) apt_install python3 python3-venv ;; esac
    fi
    has_java || stop "Java $min_java or newer is missing, and Spark needs it: install a Java runtime, or point JAVA_HOME at one."
    has_mariadb || say "MariaDB is missing: everything works but the emulator and its tests (install the package mariadb-server)."
    has_postgres || say "PostgreSQL is missing: everything works but the tests of Dagster's storage in it (install the package postgresql)."
    [ -x $venv/bin/python ] || [ -n "$(find_python venv)" ] ||
        stop "Python 3.11 to 3.13 with its venv module is missing: install it, or name one with PYTHON=..."
}

packages() {
    local python
    if ! python_works $venv/bin/python; then
        python=$(find_python venv)
        say "making $venv with $("$python" --version)"
        "$python" -m venv --clear $venv
    fi
    say "installing the locked packages"
    # The lock is complete, so pip has nothing to resolve; asked to, it wants a hash for each "name[extra]" of its own.
    $venv/bin/python -m pip install --no-input --disable-pip-version-check -q --no-deps --require-hashes \
        -r requirements.lock </dev/null
    # setuptools comes from the lock, so that nothing is downloaded that the lock does not name.
    $venv/bin/python -m pip install --no-input --disable-pip-version-check -q --no-deps --no-build-isolation -e . </dev/null
    local conflicts
    conflicts=$($venv/bin/python -m pip check --disable-pip-version-check) || stop "$conflicts"
}

jars() {
    say "fetching the Iceberg jars (once)"
    $venv/bin/python scripts/fetch_jars.py </dev/null >$venv/jars.log 2>&1 ||
        stop "Spark did not start with the Iceberg jars; most often Maven's central repository, or your mirror of it, was not reachable (log: $venv/jars.log)."
}

broker() { # of Kafka, for tests and for what runs live
    say "fetching the jars of Kafka (once)"
    $venv/bin/python scripts/fetch_broker.py </dev/null >$venv/broker.log 2>&1 ||
        say "The jars of Kafka could not be fetched: everything works but what starts a broker of its own (log: $venv/broker.log)."
}

classes() { # without it everything works, and Spark takes ten seconds more to start
    say "archiving Spark's classes (once)"
    $venv/bin/python -W ignore scripts/archive_classes.py </dev/null >$venv/classes.log 2>&1 ||
        say "Spark's classes could not be archived: everything works, but each start takes longer (log: $venv/classes.log)."
}

if [ -f $stamp ] && [ "$(cat $stamp)" = "$(fingerprint)" ] && has_java; then exit 0; fi
system_packages
packages
jars
broker
classes
fingerprint >$stamp
say "done"

# Shared by the scripts of the search servers (POSIX sh): their own classes from Maven Central in a small launcher, since the
# distributions refuse root. A JDK is needed: the launcher is compiled as it starts. What is not published there is not here:
# security, scripts, update by query. Sourced with NAME, PORT and VERSION; LAUNCH is the launcher's text, on standard input.
. "$(dirname -- "$0")/lib.sh"
dir=$WORK/$NAME; pid=$dir/pid; jars=${JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/server-jars}/$NAME-$VERSION
java=${JAVA:-java}
depends() { printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>' "$@"; }

# fetched DEPENDENCIES: have the jars of a pom in $jars.
fetched() {
    [ -f "$jars/.done" ] && return
    command -v mvn >/dev/null 2>&1 || missing "the jars of $NAME are not there, and Maven is not installed"
    rm -rf "$jars"; mkdir -p "$jars/pom"
    {
        printf '<project><modelVersion>4.0.0</modelVersion><groupId>l</groupId><artifactId>s</artifactId><version>1</version>'
        printf '<packaging>pom</packaging><dependencies>%s</dependencies></project>' "$1"
    } >"$jars/pom/pom.xml"
    mvn -q -B -f "$jars/pom/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars" >&2 ||
        missing "Maven could not fetch the jars of $NAME"
    : >"$jars/.done"
}
answers() { "$PYTHON" -c 'import sys, urllib.request
sys.exit(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/_cluster/health?wait_for_status=yellow&timeout=1s", timeout=3).status != 200)' "$PORT"; }

# launched CLASSPATH ARGUMENT…: start the launcher with the settings that all have, and wait until it answers.
launched() {
    alive "$pid" && return
    command -v "${java}c" >/dev/null 2>&1 || missing "a JDK is not installed"
    mkdir -p "$dir/config"; rm -f "$pid"; cat >"$dir/Launch.java"
    printf '%s\n' appender.c.type=Console appender.c.name=c appender.c.layout.type=PatternLayout \
        'appender.c.layout.pattern=%d{HH:mm:ss} %p %c{1} %m%n' rootLogger.level=info rootLogger.appenderRef.c.ref=c \
        >"$dir/config/log4j2.properties"
    launched_cp=$1; shift
    background "$dir/log" "$pid" "$java" "-Xms${HEAP:-512m}" "-Xmx${HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -Dlog4j2.configurationFile="$dir/config/log4j2.properties" -cp "$launched_cp" "$dir/Launch.java" "$@"
    wait_for 120 "$pid" "$dir/log" answers
}

# served SCHEME COMMAND: start, stop, or (again) 20 s without it.
served() {
    case "${2:-start}" in
        start) start; echo "$1://127.0.0.1:$PORT" ;;
        stop) ended TERM "$pid" ;;
        again) ended KILL "$pid"; sleep "${GONE:-20}"; start ;;
        *) say "usage: sh tests/servers/$NAME start|stop|again"; exit 2 ;;
    esac
}

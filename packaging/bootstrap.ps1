<#
.SYNOPSIS
Takes a fresh clone to a running or tested Coppice on Windows: virtual environment, exact versions.
.DESCRIPTION
run       set up what is missing, then open Coppice; further arguments go to it (see: run --help)
shortcut  set up what is missing, then put Coppice into the Start menu, from where it opens without a console
test      set up what is missing, then run every check; further arguments go to pytest
check     say what is there and what is missing, one line each; changes nothing

The counterpart of packaging/bootstrap.sh, for Windows PowerShell 5.1 and PowerShell 7. Start it with
    powershell -ExecutionPolicy Bypass -File packaging\bootstrap.ps1 run
or by a double click on packaging\bootstrap.cmd.
.NOTES
Environment:
  PYTHON         the Python to use, 64-bit 3.11 to 3.13 (otherwise the newest that the launcher `py` knows)
  COPPICE_VENV   the virtual environment (otherwise .venv in this project)
  COPPICE_TORCH  the build of PyTorch: cpu, cuda or default (otherwise cuda where an NVIDIA card can use it, else cpu)
#>
# No parameters: a script that has them has PowerShell's own as well, and pytest's -v, -d, -p and -o would be taken for these.
$Command, $Arguments = $args
$Arguments = @($Arguments | Where-Object { $null -ne $_ })

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$root = (Resolve-Path (Join-Path $PSScriptRoot '..')).Path
$venv = if ($env:COPPICE_VENV) { $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($env:COPPICE_VENV) }
else { Join-Path $root '.venv' }
$python = Join-Path $venv 'Scripts\python.exe'
$stamp = Join-Path $venv 'coppice-installed' # written when everything is in
$constraints = Join-Path $root 'packaging\constraints.txt'
$cudaIndex = 'https://download.pytorch.org/whl/cu130'
$neededBytes = 9GB # with CUDA; the rest is far less
$longestPath = 259 # of Windows, unless long paths are switched on
$longestName = 173 # in an environment, below site-packages: a licence in torch 2.13's wheel for CUDA
$cudaDriver, $cudaCapability = 580, 75 # what CUDA 13 needs; the same as in app\installation\runtime\builds.py
$oldestRuntime = [version]'14.40' # of Visual C++: with an older msvcp140.dll torch ends with WinError 1114
$runtimeAdvice = 'winget install Microsoft.VCRedist.2015+.x64'

# Python takes these for its own, wherever they come from.
Remove-Item Env:PYTHONHOME, Env:PYTHONPATH -ErrorAction SilentlyContinue

function Write-Note([string] $Text) { [Console]::Error.WriteLine("coppice: $Text") }

function Stop-WithError([string] $Text) {
    Write-Note "error: $Text"
    exit 1
}

function Test-Python([string] $Program, [string[]] $Options = @()) {
    # Whether this is a 64-bit CPython that the project runs on, with what makes environments.
    $ErrorActionPreference = 'Continue' # PowerShell 5.1 throws what a program says on an error stream that goes nowhere
    $code = 'import ensurepip, sys, venv; raise SystemExit(not ((3, 11) <= sys.version_info < (3, 14) and sys.maxsize > 2**32))'
    try { & $Program @Options -c $code 2>$null | Out-Null } catch { return $false }
    return $LASTEXITCODE -eq 0
}

function Find-Python {
    # The program and its options, or nothing.
    if ($env:PYTHON) {
        if (Test-Python $env:PYTHON) { return , @($env:PYTHON) }
        return $null
    }
    foreach ($version in '3.13', '3.12', '3.11') {
        if (Test-Python 'py' @("-$version")) { return , @('py', "-$version") }
    }
    if (Test-Python 'python') { return , @('python') }
    return $null
}

function Test-Environment {
    # Whether the environment runs: the Python that it was made with may have been removed.
    if (-not ((Test-Path $python) -and (Test-Python $python))) { return $false }
    $ErrorActionPreference = 'Continue' # as above
    try { & $python -c 'import pip' 2>$null | Out-Null } catch { return $false }
    return $LASTEXITCODE -eq 0
}

function Get-PythonAdvice {
    if ($env:PYTHON) { return "PYTHON=$env:PYTHON is not a working 64-bit Python 3.11, 3.12 or 3.13. Give another one, or none." }
    return 'No working 64-bit Python 3.11, 3.12 or 3.13 was found. Install one (winget install Python.Python.3.13) and start again.'
}

function Test-Nvidia {
    $found = Get-Command nvidia-smi -ErrorAction SilentlyContinue
    if (-not $found) { return $false }
    $ErrorActionPreference = 'Continue' # as above
    try { & $found.Source -L 2>$null | Out-Null } catch { return $false }
    return $LASTEXITCODE -eq 0
}

function Get-NvidiaTrouble {
    # Why CUDA 13 computes on no card here, where there is a driver; empty if it does. Drivers of before 2022 tell nothing.
    $ErrorActionPreference = 'Continue' # as above
    try { $lines = @(nvidia-smi '--query-gpu=compute_cap,driver_version' '--format=csv,noheader' 2>$null) } catch { $lines = @() }
    $driver = 0
    foreach ($line in $lines) {
        if ($line -match '^(\d+)\.(\d+),\s*(\d+)') {
            $driver = [int]$Matches[3]
            if ($driver -ge $cudaDriver -and 10 * [int]$Matches[1] + [int]$Matches[2] -ge $cudaCapability) { return '' }
        }
    }
    if ($driver -ge $cudaDriver) { return 'the NVIDIA card is older than compute capability 7.5, which CUDA 13 needs' }
    return "the NVIDIA driver is older than $cudaDriver, which CUDA 13 needs; install a newer one and start again"
}

function Test-Runtime {
    # Whether the Visual C++ runtime that torch needs is there, and new enough.
    $library = Join-Path $env:SystemRoot 'System32\msvcp140.dll'
    if (-not (Test-Path $library)) { return $false }
    $about = (Get-Item $library).VersionInfo
    return [version]"$($about.FileMajorPart).$($about.FileMinorPart)" -ge $oldestRuntime
}

function Test-AppControl {
    # Whether Smart App Control is on, which may refuse libraries that are not signed, as PyTorch's are.
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\CI\Policy'
    $setting = Get-ItemProperty $key -Name VerifiedAndReputablePolicyState -ErrorAction SilentlyContinue
    return [bool]($setting -and $setting.VerifiedAndReputablePolicyState -eq 1)
}

function Test-PathLength {
    # Whether every file of the environment has a path that Windows takes.
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem'
    $setting = Get-ItemProperty $key -Name LongPathsEnabled -ErrorAction SilentlyContinue
    if ($setting -and $setting.LongPathsEnabled -eq 1) { return $true }
    return "$venv\Lib\site-packages\".Length + $longestName -le $longestPath
}

function Get-PathAdvice {
    $most = $longestPath - $longestName - '\Lib\site-packages\'.Length
    return "$venv is too deep: paths in it would exceed the 260 characters of Windows. Move the project, or set COPPICE_VENV to a folder with a path of at most $most characters, or switch on long paths: https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation"
}

function Get-TorchChoice {
    $choice = $env:COPPICE_TORCH
    if (-not $choice) { if ((Test-Nvidia) -and -not (Get-NvidiaTrouble)) { return 'cuda' } else { return 'default' } }
    if ($choice -notin 'cpu', 'cuda', 'default') {
        Stop-WithError "COPPICE_TORCH=$choice is not a build of PyTorch. Give cpu, cuda or default."
    }
    if ($choice -eq 'cpu') { return 'default' } # PyPI's build for Windows is the one for the processor
    return $choice
}

function Get-Fingerprint([string] $Choice) {
    # What the installed packages depend on; the paths are in it because a moved project must be installed anew.
    $text = (Get-Content (Join-Path $root 'pyproject.toml') -Raw -Encoding UTF8) + (Get-Content $constraints -Raw -Encoding UTF8) + $root + $venv + $Choice
    $sha = [Security.Cryptography.SHA256]::Create()
    try { return [BitConverter]::ToString($sha.ComputeHash([Text.Encoding]::UTF8.GetBytes($text))).Replace('-', '').Substring(0, 32) }
    finally { $sha.Dispose() }
}

function Test-Installed([string] $Kind) {
    if (-not ((Test-Path $python) -and (Test-Path $stamp))) { return $false }
    $words = (Get-Content $stamp -TotalCount 1) -split ' '
    if ($words.Count -ne 2 -or $words[1] -ne (Get-Fingerprint (Get-TorchChoice))) { return $false }
    return ($words[0] -eq 'dev' -or $Kind -eq 'run') -and (Test-Environment)
}

function Get-FreeBytes {
    $drive = New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($venv))
    return $drive.AvailableFreeSpace
}

function Invoke-Pip([string[]] $Options) {
    & $python -m pip --isolated --disable-pip-version-check @Options
    if ($LASTEXITCODE -ne 0) {
        Stop-WithError "the packages could not be installed; pip's reason is above. Start again: what is there already is kept."
    }
}

function Install-Environment([string] $Kind) {
    if (-not (Test-PathLength)) { Stop-WithError (Get-PathAdvice) }
    if (-not (Test-Path $python) -and (Get-FreeBytes) -lt $neededBytes) {
        Stop-WithError "$venv needs 9 GB; less is free. Make room, or set COPPICE_VENV to a folder on another disk."
    }
    if (-not (Test-Environment)) {
        # Making an environment empties the folder: never one that is somebody's.
        if ((Test-Path $venv) -and -not (Test-Path (Join-Path $venv 'pyvenv.cfg')) -and (Get-ChildItem $venv -Force)) {
            Stop-WithError "$venv is not a virtual environment and not empty. Set COPPICE_VENV to another folder."
        }
        $found = Find-Python
        if (-not $found) { Stop-WithError (Get-PythonAdvice) }
        Write-Note "making $venv"
        $program, $options = $found
        & $program @(@($options) + @('-m', 'venv', '--clear', $venv) | Where-Object { $_ })
        if ($LASTEXITCODE -ne 0) { Stop-WithError "$venv could not be made; the reason is above." }
    }
    Remove-Item $stamp -ErrorAction SilentlyContinue
    Write-Note "installing packages into $venv; this takes some minutes the first time"
    if (-not (Test-Runtime)) { Write-Note "the engine needs a newer Visual C++ runtime: $runtimeAdvice" }
    if ((Test-Nvidia) -and (Get-NvidiaTrouble)) { Write-Note "models will compute on the CPU: $(Get-NvidiaTrouble)" }
    $choice = Get-TorchChoice
    if ($choice -eq 'cuda') {
        $version = (Select-String -Path $constraints -Pattern '^torch==(.+)$').Matches[0].Groups[1].Value
        Invoke-Pip @('install', '-c', $constraints, '--index-url', $cudaIndex, '--extra-index-url', 'https://pypi.org/simple', "torch==$version+cu130")
    }
    # A Python often brings an older pip, which takes three times as long to choose among the files of an index.
    & $python -m pip --isolated --disable-pip-version-check install -c $constraints pip
    Invoke-Pip @('install', '-c', $constraints, 'hatchling', 'editables')
    $project = if ($Kind -eq 'dev') { "$root[dev]" } else { $root }
    Invoke-Pip @('install', '-c', $constraints, '--no-build-isolation', '-e', $project)
    Set-Content -Path $stamp -Value "$Kind $(Get-Fingerprint $choice)"
}

function Start-Coppice {
    if (-not (Test-Installed 'run')) { Install-Environment 'run' }
    # Safe path: a folder named `app` or `engine` where the person happens to stand must not be taken for ours.
    $env:PYTHONSAFEPATH = '1'
    & $python -m app @Arguments
    exit $LASTEXITCODE
}

function New-Shortcut {
    if (-not (Test-Installed 'run')) { Install-Environment 'run' }
    $place = Join-Path ([Environment]::GetFolderPath('Programs')) 'Coppice.lnk'
    $link = (New-Object -ComObject WScript.Shell).CreateShortcut($place)
    $link.TargetPath = Join-Path $venv 'Scripts\pythonw.exe'
    $link.Arguments = '-P -m app' # -P: safe path, as above
    $link.WorkingDirectory = $root
    $link.IconLocation = Join-Path $root 'packaging\icons\coppice.ico'
    $link.Save()
    Write-Note "Coppice is in the Start menu: $place"
}

function Invoke-Checks {
    if (-not (Test-Installed 'dev')) { Install-Environment 'dev' }
    $env:QT_QPA_PLATFORM = 'offscreen'
    Push-Location $root
    $failed = @()
    $checks = [ordered]@{
        'ruff check'             = @('-m', 'ruff', 'check')
        'ruff format'            = @('-m', 'ruff', 'format', '--check')
        'mypy --strict'          = @('-m', 'mypy')
        'mypy --strict, Windows' = @('-m', 'mypy', '--platform', 'win32', '--no-warn-unreachable', '--cache-dir', '.mypy_cache/win32', 'engine', 'app')
        'mypy --strict, macOS'   = @('-m', 'mypy', '--platform', 'darwin', '--no-warn-unreachable', '--cache-dir', '.mypy_cache/darwin', 'engine', 'app')
        'import contracts'       = @('-c', 'from importlinter.cli import lint_imports_command; lint_imports_command()')
        'pytest'                 = @('-m', 'pytest', '--numprocesses', 'logical', '--maxprocesses', '4', '--max-worker-restart', '0', '--dist', 'loadfile') + $Arguments
    }
    try {
        foreach ($name in $checks.Keys) {
            Write-Output "`n== $name"
            & $python @($checks[$name])
            if ($LASTEXITCODE -ne 0) { $failed += $name }
        }
    }
    finally { Pop-Location }
    Write-Output "`n== summary"
    foreach ($name in $checks.Keys) { Write-Output ('{0,-8} {1}' -f $(if ($name -in $failed) { 'FAILED' } else { 'ok' }), $name) }
    exit [int]($failed.Count -gt 0)
}

function Show-State {
    $lacking = $false
    $found = Find-Python
    if (Test-Environment) { Write-Output "ok       virtual environment: $venv" }
    elseif ($found) { Write-Output "ok       Python: $($found -join ' ')"; Write-Output "missing  virtual environment: $venv; 'run' and 'test' make it"; $lacking = $true }
    else { Write-Output "missing  $(Get-PythonAdvice)"; $lacking = $true }
    if (Test-Installed 'dev') { Write-Output 'ok       packages: installed, for running and testing' }
    elseif (Test-Installed 'run') { Write-Output "ok       packages: installed, for running; 'test' adds its own" }
    else { Write-Output "missing  packages: 'run' and 'test' install them"; $lacking = $true }
    foreach ($model in 'demo-target', 'demo-draft') {
        if (Test-Path (Join-Path $root "resources\models\$model\model.safetensors")) { Write-Output "ok       embedded model: $model" }
        else { Write-Output "missing  embedded model: resources\models\$model has no weights; clone the project again"; $lacking = $true }
    }
    if (Test-PathLength) { Write-Output 'ok       length of paths' } else { Write-Output "missing  $(Get-PathAdvice)"; $lacking = $true }
    if (Test-Runtime) { Write-Output 'ok       Visual C++ runtime' }
    else { Write-Output "missing  Visual C++ runtime $oldestRuntime or newer: $runtimeAdvice"; $lacking = $true }
    if (Test-AppControl) { Write-Output 'note     Smart App Control is on: it may refuse libraries of PyTorch (WinError 4551)' }
    if (-not (Test-Nvidia)) { Write-Output 'note     no NVIDIA driver: models compute on the CPU' }
    elseif (Get-NvidiaTrouble) { Write-Output "note     models compute on the CPU: $(Get-NvidiaTrouble)" }
    else { Write-Output 'ok       NVIDIA driver' }
    exit [int]$lacking
}

switch ("$Command") {
    'run' { Start-Coppice }
    'shortcut' { New-Shortcut }
    'test' { Invoke-Checks }
    'check' { Show-State }
    default { Stop-WithError 'say what to do: bootstrap.ps1 run, shortcut, test or check. What these are is told at the top of the script.' }
}

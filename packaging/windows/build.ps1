<#
.SYNOPSIS
Builds the Windows installer: build\coppice-VERSION-windows-x86_64.exe. Needs Python 3.11 (64 bit) and Inno Setup 6.
.DESCRIPTION
Freezes the window with packaging\bundle\freeze.py, signs the programs where a certificate is named, and packs them with
Inno Setup. See packaging\README.md.
.PARAMETER Python
The Python 3.11 to freeze.
.PARAMETER NoFreeze
Package build\bundle\coppice as it is.
.PARAMETER Certificate
The SHA-1 thumbprint of a code-signing certificate in the user's store; nothing is signed without one.
.PARAMETER TimestampServer
Who says when it was signed.
#>
[CmdletBinding()]
param(
    [string] $Python = 'py -3.11',
    [switch] $NoFreeze,
    [string] $Certificate = '',
    [string] $TimestampServer = 'http://timestamp.digicert.com'
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$root = (Resolve-Path (Join-Path $PSScriptRoot '..\..')).Path
$build = Join-Path $root 'build'
$bundle = Join-Path $build 'bundle\coppice'

function Invoke-Program {
    # Runs a program and stops where it fails, which PowerShell does not do by itself.
    param([Parameter(Mandatory)] [string] $Program, [string[]] $Arguments = @())
    & $Program @Arguments
    if ($LASTEXITCODE -ne 0) { throw "$Program ended with exit code $LASTEXITCODE" }
}

function Find-Program {
    # A program of the path, or of one of the usual places.
    param([Parameter(Mandatory)] [string] $Name, [string[]] $Places, [Parameter(Mandatory)] [string] $Advice)
    $found = Get-Command $Name -ErrorAction SilentlyContinue | Select-Object -First 1
    if ($found) { return $found.Source }
    $found = $Places | ForEach-Object { Get-Item $_ -ErrorAction SilentlyContinue } |
        Sort-Object FullName -Descending | Select-Object -First 1
    if ($found) { return $found.FullName }
    throw $Advice
}

function Get-CoppiceVersion {
    $text = Get-Content (Join-Path $root 'engine\__init__.py') -Raw
    if ($text -notmatch '__version__ = "([^"]+)"') { throw 'engine\__init__.py names no version' }
    return $Matches[1]
}

function Add-Signature {
    # Signs files with the certificate that was named; does nothing without one.
    param([Parameter(Mandatory)] [string[]] $Path)
    if (-not $Certificate) { return }
    $signtool = Find-Program 'signtool.exe' @("${env:ProgramFiles(x86)}\Windows Kits\10\bin\*\x64\signtool.exe") `
        'signtool.exe is missing: install the Windows SDK'
    Invoke-Program $signtool (@('sign', '/sha1', $Certificate, '/fd', 'SHA256', '/tr', $TimestampServer, '/td', 'SHA256') + $Path)
}

$version = Get-CoppiceVersion
$iscc = Find-Program 'ISCC.exe' @("${env:ProgramFiles(x86)}\Inno Setup 6\ISCC.exe", "$env:ProgramFiles\Inno Setup 6\ISCC.exe") `
    'Inno Setup 6 is missing: winget install JRSoftware.InnoSetup'
if (-not $NoFreeze) {
    $words = @(if (Test-Path $Python) { $Python } else { $Python -split ' ' }) # a path may have blanks in it
    Invoke-Program $words[0] (@($words | Select-Object -Skip 1) + (Join-Path $root 'packaging\bundle\freeze.py'))
}
if (-not (Test-Path (Join-Path $bundle 'coppice.exe'))) { throw "$bundle is not there" }
Add-Signature @((Join-Path $bundle 'coppice.exe'), (Join-Path $bundle 'coppice-terminal.exe'))
Invoke-Program $iscc @("/DVersion=$version", "/DBundle=$bundle", "/O$build", (Join-Path $PSScriptRoot 'coppice.iss'))
$installer = Join-Path $build "coppice-$version-windows-x86_64.exe"
Add-Signature @($installer)
Get-Item $installer
